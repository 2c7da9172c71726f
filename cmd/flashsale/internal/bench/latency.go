package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
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

func runLatency(ctx context.Context, l *lab, rows []Row) (err error) {
	ours, err := l.startNode(ctx, "lua")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	hello, err := l.startHello(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hello.Close()) }()

	onHello := func(path string, rate int) measure {
		return func(ctx context.Context) (sample, error) {
			s, _, err := l.paced(ctx, "http://"+hello.Addr()+path, l.next("sale"), rate, http.StatusOK, meter{app: hello.Pid()})
			return s, err
		}
	}
	ordering := ours.ordering(5000)
	echoing := onHello("/v1/echo", 5000)
	if err := l.warm(ctx, ordering, echoing); err != nil {
		return err
	}
	if err := l.compare(ctx, &rows[0], ordering, echoing); err != nil {
		return err
	}
	if rows[0].Counterpart >= quietEcho && !*rows[0].Met {
		rows[0].Met = nil
		rows[0].Note = fmt.Sprintf("not judged: the echo's own p99 is not below %d ms: the machine is too busy to judge", quietEcho)
	}

	gone, err := ours.sellOut(ctx, 1000)
	if err != nil {
		return err
	}
	refusing := func(ctx context.Context) (sample, error) {
		s, _, err := l.paced(ctx, ours.url("/v1/orders"), gone, 10_000, http.StatusConflict, ours.meter)
		return s, ours.logged(err)
	}
	greeting := onHello("/v1/orders", 10_000)
	if err := l.warm(ctx, refusing, greeting); err != nil {
		return err
	}
	return l.compare(ctx, &rows[1], refusing, greeting)
}

// ordering places orders at a fixed rate in a new sale, and checks that each
// 201 is a row. Its figure is the p99 in milliseconds.
func (n *node) ordering(rate int) measure {
	return func(ctx context.Context) (sample, error) {
		sale := n.l.next("sale")
		if err := n.openSale(ctx, sale, 1, plenty); err != nil {
			return sample{}, n.logged(err)
		}
		s, sent, err := n.l.paced(ctx, n.url("/v1/orders"), sale, rate, http.StatusCreated, n.meter)
		if err != nil {
			return sample{}, n.logged(err)
		}
		rows, err := n.settle(ctx, sale, 1)
		if accepted := int64(sent.good); err == nil && (rows < accepted || rows > int64(sent.all)) {
			err = fmt.Errorf("%w: %d orders were accepted of %d, %d are in the database", errCounts, accepted, sent.all, rows)
		}
		return s, err
	}
}

// answers are how many came, and how many of them with the wanted status.
type answers struct{ all, good int }

// paced sends orders at a fixed rate, whether or not answers return, and
// returns the p99 of all answers in milliseconds: a request that waited for a
// connection is already on the clock. Nine in ten at least must have the
// wanted status.
func (l *lab) paced(ctx context.Context, url, sale string, rate, want int, m meter) (s sample, n answers, err error) {
	transport := &http.Transport{MaxIdleConnsPerHost: l.cfg.Connections, MaxConnsPerHost: l.cfg.Connections}
	defer transport.CloseIdleConnections()
	attacker := vegeta.NewAttacker(vegeta.Client(&http.Client{Transport: transport, Timeout: 10 * time.Second}),
		vegeta.Workers(64), vegeta.MaxWorkers(uint64(4*l.cfg.Connections)))
	defer context.AfterFunc(ctx, func() { attacker.Stop() })()

	body := []byte(fmt.Sprintf(`{"sku":"%s-000","quantity":1}`, sale))
	key := l.next("key") + "-"
	var count atomic.Uint64
	target := func(t *vegeta.Target) error {
		n := count.Add(1)
		t.Method, t.URL, t.Body = http.MethodPost, url, body
		t.Header = http.Header{
			"Authorization":   {"Bearer " + l.crowd.tokens[n%crowdSize]},
			"Content-Type":    {"application/json"},
			"Idempotency-Key": {key + strconv.FormatUint(n, 10)},
		}
		return nil
	}
	var latencies []time.Duration
	var wrong error
	stop := m.start()
	duration := time.Duration(l.cfg.Seconds) * time.Second
	for res := range attacker.Attack(target, vegeta.Rate{Freq: rate, Per: time.Second}, duration, "bench") {
		latencies = append(latencies, res.Latency)
		if int(res.Code) == want {
			n.good++
		} else if wrong == nil {
			wrong = fmt.Errorf("%d instead of %d: %s %s", res.Code, want, res.Error, res.Body)
		}
	}
	n.all = len(latencies)
	switch planned := rate * l.cfg.Seconds; {
	case ctx.Err() != nil:
		return sample{}, n, ctx.Err()
	case n.all == 0 || n.good < n.all*9/10:
		return sample{}, n, fmt.Errorf("%w: %d of %d answers were right, the first other one was %w", errCounts, n.good, n.all, wrong)
	case wrong != nil:
		s.note = fmt.Sprintf("%d of %d answers were others, the first %v", n.all-n.good, n.all, wrong)
	case n.all < planned*95/100:
		s.note = fmt.Sprintf("the machine is too busy: only %d of %d requests could be sent in time", n.all, planned)
	}
	s.value, s.cpu = percentile(latencies, 99).Seconds()*1e3, stop(float64(n.all))
	return s, n, nil
}

// percentile p of at least one duration: the smallest that p in a hundred do
// not exceed.
func percentile(d []time.Duration, p int) time.Duration {
	slices.Sort(d)
	return d[(len(d)*p+99)/100-1]
}
