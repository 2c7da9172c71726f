package bench

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"flashsale/loadtest/client"
	"flashsale/loadtest/report"
)

var latency = benchmark{
	name:  "latency",
	about: "p99 at a fixed rate: 5,000 orders/s against a gin echo, 10,000 refusals/s against gin hello",
	rows: []Row{
		{Item: "6a", Name: "p99 of 201s at 5,000/s / gin echo", Unit: "ms", Target: atMost(10)},
		{Item: "6b", Name: "p99 of refusals at 10,000/s / gin hello", Unit: "ms", Target: Target{Bound: 2.5}},
	},
	run: runLatency,
}

// quietEcho is the echo's p99 from which on the machine is too busy for 6a to
// be judged.
const quietEcho = 3 // ms

func runLatency(ctx context.Context, l *bench, rows []Row) error {
	ours, hello, err := l.besideHello(ctx)
	if err != nil {
		return err
	}
	onHello := func(path string, rate int) measure {
		return func(ctx context.Context) (sample, error) {
			s, _, err := l.paced(ctx, "http://"+hello.Addr()+path, l.next("sale"), rate, http.StatusOK, meter{hello.Pid()})
			return s, err
		}
	}
	if err := l.contest(ctx, rows[:1], ours.ordering(5000), onHello("/v1/echo", 5000)); err != nil {
		return err
	}
	if rows[0].Counterpart >= quietEcho && !*rows[0].Met {
		rows[0].Met = nil
		rows[0].Note = fmt.Sprintf("not judged: the echo's own p99 is not below %d ms: the machine is too busy to judge", quietEcho)
	}

	gone, err := ours.sellOut(ctx)
	if err != nil {
		return err
	}
	refusing := func(ctx context.Context) (sample, error) {
		s, _, err := l.paced(ctx, ours.URL()+"/v1/orders", gone, 10_000, http.StatusConflict, ours.meter)
		return s, err
	}
	return l.contest(ctx, rows[1:], refusing, onHello("/v1/orders", 10_000))
}

// ordering places orders at a fixed rate in a new sale, and checks that each
// 201 is a row. Its figure is the p99 in milliseconds.
func (n *node) ordering(rate int) measure {
	return func(ctx context.Context) (sample, error) {
		sale := n.l.next("sale")
		if err := n.openSale(ctx, sale, 1, plenty); err != nil {
			return sample{}, err
		}
		s, sent, err := n.l.paced(ctx, n.URL()+"/v1/orders", sale, rate, http.StatusCreated, n.meter)
		if err != nil {
			return sample{}, err
		}
		rows, err := n.settle(ctx, sale, 1)
		if err == nil && (rows < sent.good || rows > sent.all) {
			err = fmt.Errorf("%w: %d orders were accepted of %d, %d are in the database", errCounts, sent.good, sent.all, rows)
		}
		return s, err
	}
}

// answers are how many came, and how many of them with the wanted status.
type answers struct{ all, good int64 }

// paced sends orders at a fixed rate, whether or not answers return. It returns
// the p99 of all answers in milliseconds, with the time that a request waits for
// a connection. At least nine in ten answers must have the wanted status.
func (l *bench) paced(ctx context.Context, url, sale string, rate, want int, cpu meter) (s sample, n answers, err error) {
	conns := client.NewHTTP(l.cfg.Connections, 10*time.Second)
	defer conns.CloseIdleConnections()
	attacker := vegeta.NewAttacker(vegeta.Client(conns), vegeta.Workers(64), vegeta.MaxWorkers(uint64(4*l.cfg.Connections)))
	defer context.AfterFunc(ctx, func() { attacker.Stop() })()

	shop, key := client.New("", sale+"-000", conns), l.next("key")
	var count atomic.Uint64
	target := func(t *vegeta.Target) error {
		n := count.Add(1)
		shop.Target(t, client.Buyer{Token: l.crowd.tokens[n%crowdSize]}, fmt.Sprintf("%s-%d", key, n), 1)
		t.URL = url
		return nil
	}
	var m vegeta.Metrics
	var wrong error
	stop := cpu.start()
	duration := time.Duration(l.cfg.Seconds) * time.Second
	for res := range attacker.Attack(target, vegeta.Rate{Freq: rate, Per: time.Second}, duration, "bench") {
		m.Add(res)
		if int(res.Code) != want && wrong == nil {
			wrong = fmt.Errorf("%d instead of %d: %s %s", res.Code, want, res.Error, res.Body)
		}
	}
	m.Close()
	n = answers{all: int64(m.Requests), good: int64(m.StatusCodes[strconv.Itoa(want)])}
	switch planned := int64(rate * l.cfg.Seconds); {
	case ctx.Err() != nil:
		return sample{}, n, ctx.Err()
	case n.all == 0 || n.good < n.all*9/10:
		return sample{}, n, fmt.Errorf("%w: %d of %d answers were right, the first other one was %w", errCounts, n.good, n.all, wrong)
	case wrong != nil:
		s.note = fmt.Sprintf("%d of %d answers were others, the first %v", n.all-n.good, n.all, wrong)
	case n.all < planned*95/100:
		s.note = fmt.Sprintf("the machine is too busy: only %d of %d requests could be sent in time", n.all, planned)
	}
	s.value, s.cpu = report.Milliseconds(m.Latencies.P99), stop(float64(n.all))
	return s, n, nil
}
