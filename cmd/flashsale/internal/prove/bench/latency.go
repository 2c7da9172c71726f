package bench

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	vegeta "github.com/tsenart/vegeta/v12/lib"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/client"
	"flashsale/loadtest/report"
	"flashsale/loadtest/servers"
)

var latency = benchmark{
	name:  "latency",
	about: "p99 of orders at normal load, against an echo and a bare transaction; their CPU time, against a variant's",
	rows: []Row{
		{Item: "6a", Name: "p99 of 201s, 200/s, 1 sale / yardstick", Unit: "ms", Target: calm},
		{Item: "6b", Name: "p99 of 201s, 200/s, 12 sales / yardstick", Unit: "ms", Target: calm},
		{Item: "6c", Name: "p99 of 201s, 1,000/s, 1 sale / yardstick", Unit: "ms", Target: calm},
		{Item: "6d", Name: "p99 of 201s, 1,000/s, 12 sales / yardstick", Unit: "ms", Target: calm},
		{Item: "6e", Name: "p99 of 201s, 2,000/s, 1 sale / yardstick", Unit: "ms", Target: calm},
		{Item: "6f", Name: "p99 of 201s, 2,000/s, 12 sales / yardstick", Unit: "ms", Target: calm},
		{Item: "6g", Name: "CPU time of an order, 1,000/s / conditional-update", Unit: "µs", Target: Target{Bound: 1}, ofCPU: true},
	},
	run: runLatency,
}

// calm is the target of latency: at most three echoes, two transactions, and two writes to Redis.
var calm = Target{Bound: 1}

func runLatency(ctx context.Context, l *bench, rows []Row) error {
	ours, hello, err := l.startWithHello(ctx)
	if err != nil {
		return err
	}
	theirs, err := l.start(ctx, "", lab.NodeConfig{Strategy: "conditional-update"})
	if err != nil {
		return err
	}
	const connections = 32
	bare, err := l.openStore(ctx, connections)
	if err != nil {
		return err
	}
	bare.db.SetMaxOpenConns(connections)
	bare.db.SetMaxIdleConns(connections)
	queue := l.openRedis(connections)
	i := 0
	for _, rate := range []int{200, 1000, 2000} {
		for _, sales := range []int{1, 12} {
			sides := []measure{ours.ordering(rate, sales), l.echoing(hello, rate), bare.inserting(rate), l.writing(queue, rate)}
			samples, err := l.warmed(ctx, "ms", sides...)
			if err != nil {
				return err
			}
			rows[i].fill(samples[0], yardstick(samples[1], samples[2], samples[3]))
			i++
		}
	}
	return l.contest(ctx, rows[i:], ours.ordering(1000, 1), theirs.ordering(1000, 1))
}

// yardstick returns samples of three echoes, two bare transactions and two bare writes to Redis.
// An order also waits for the syncs of about two such writes.
func yardstick(echoes, transactions, writes []sample) []sample {
	sum := make([]sample, len(echoes))
	for i := range sum {
		sum[i].value = 3*echoes[i].value + 2*transactions[i].value + 2*writes[i].value
		sum[i].note = fmt.Sprintf("yardstick: three times the p99 of a gin echo, %s ms, two times that of a bare durable transaction, %s ms, and two times that of a synced write to Redis, %s ms",
			report.Figure(echoes[i].value), report.Figure(transactions[i].value), report.Figure(writes[i].value))
	}
	return sum
}

// echoing measures the gin server that returns the body of the request.
func (l *bench) echoing(hello *servers.Process, rate int) measure {
	return func(ctx context.Context) (sample, error) {
		s, _, err := l.paced(ctx, nil, "http://"+hello.Addr()+"/v1/echo", []string{l.next("sale")}, rate, http.StatusOK, meter{hello.Pid()})
		return s, err
	}
}

// inserting measures requests that are one transaction with one INSERT, without a
// server in between.
func (d *database) inserting(rate int) measure {
	return func(ctx context.Context) (sample, error) {
		sku, err := d.newSale(ctx)
		if err != nil {
			return sample{}, err
		}
		transaction := transport(func(r *http.Request) (*http.Response, error) {
			_, err := d.db.ExecContext(r.Context(), insertInto(1), orderRow(sku, int(d.l.orders.Add(1)), time.Now())...)
			return &http.Response{StatusCode: http.StatusCreated, Body: http.NoBody, Request: r}, err
		})
		s, _, err := d.l.paced(ctx, &http.Client{Transport: transaction}, "http://mysql", []string{sku}, rate, http.StatusCreated, d.meter())
		return s, err
	}
}

// writing measures requests that are one write to Redis, which syncs it before it answers.
func (l *bench) writing(to *redis.Client, rate int) measure {
	return func(ctx context.Context) (sample, error) {
		write := transport(func(r *http.Request) (*http.Response, error) {
			err := to.Set(r.Context(), "bare", strconv.FormatInt(l.orders.Add(1), 10), 0).Err()
			return &http.Response{StatusCode: http.StatusCreated, Body: http.NoBody, Request: r}, err
		})
		s, _, err := l.paced(ctx, &http.Client{Transport: write}, "http://redis", []string{"bare"}, rate, http.StatusCreated, meter{})
		return s, err
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// ordering places orders at a fixed rate in new sales, and checks that each 201 has a
// row. Its figure is the p99 in milliseconds.
func (n *node) ordering(rate, sales int) measure {
	return func(ctx context.Context) (sample, error) {
		sale := n.l.next("sale")
		if err := n.openSale(ctx, sale, sales, plenty); err != nil {
			return sample{}, err
		}
		s, sent, err := n.l.paced(ctx, nil, n.URL()+"/v1/orders", skusOf(sale, sales), rate, http.StatusCreated, n.meter)
		if err != nil {
			return sample{}, err
		}
		rows, err := n.settle(ctx, sale, sales)
		if err == nil && (rows < sent.good || rows > sent.all) {
			err = fmt.Errorf("%w: got %d rows of orders, want %d (orders answered 201) to %d (orders sent)", errCounts, rows, sent.good, sent.all)
		}
		return s, err
	}
}

// answers counts all answers, and answers with the wanted status.
type answers struct{ all, good int64 }

// paced sends orders at a fixed rate, whether or not answers return, and uses the
// SKUs in turn. If conns is nil, it opens connections of its own. It returns the p99
// of all answers in milliseconds, including the wait for a connection. If fewer than
// nine in ten answers have the wanted status, it returns an error.
func (l *bench) paced(ctx context.Context, conns *http.Client, url string, skus []string, rate, want int, cpu meter) (s sample, n answers, err error) {
	if conns == nil {
		conns = client.NewHTTP(l.cfg.Connections, 10*time.Second)
	}
	defer conns.CloseIdleConnections()
	attacker := vegeta.NewAttacker(vegeta.Client(conns), vegeta.Workers(64), vegeta.MaxWorkers(uint64(4*l.cfg.Connections)))
	defer context.AfterFunc(ctx, func() { attacker.Stop() })()

	key, shops := l.next("key"), make([]client.Client, len(skus))
	for i, sku := range skus {
		shops[i] = client.New("", sku, conns)
	}
	var count atomic.Uint64
	target := func(t *vegeta.Target) error {
		n := count.Add(1)
		shops[n%uint64(len(shops))].Target(t, client.Buyer{Token: l.crowd.tokens[n%crowdSize]}, fmt.Sprintf("%s-%d", key, n), 1)
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
			wrong = fmt.Errorf("the attack got status %d, want %d: %s %s", res.Code, want, res.Error, res.Body)
		}
	}
	m.Close()
	n = answers{all: int64(m.Requests), good: int64(m.StatusCodes[strconv.Itoa(want)])}
	switch planned := int64(rate * l.cfg.Seconds); {
	case ctx.Err() != nil:
		return sample{}, n, ctx.Err()
	case n.all == 0 || n.good < n.all*9/10:
		return sample{}, n, fmt.Errorf("%w: %d of %d answers had the wanted status, want at least 90 %%; first other answer: %w", errCounts, n.good, n.all, wrong)
	case wrong != nil:
		s.note = fmt.Sprintf("%d of %d answers had another status, first: %v", n.all-n.good, n.all, wrong)
	case n.all < planned*95/100:
		s.note = fmt.Sprintf("the machine is too busy: only %d of %d requests could be sent in time", n.all, planned)
	}
	s.value, s.cpu = report.Milliseconds(m.Latencies.P99), stop(float64(n.all))
	return s, n, nil
}
