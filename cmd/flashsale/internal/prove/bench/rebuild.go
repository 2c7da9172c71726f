package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/inventory"
	"flashsale/loadtest/client"
	"flashsale/loadtest/report"
	"flashsale/orders/shop"
)

var rebuild = benchmark{
	name:  "rebuild",
	about: "time for which a gate is shut by a rebuild, with 100,000 open orders",
	rows: []Row{
		{Item: "12a", Name: "gate shut for a rebuild, 100,000 open orders", Unit: "ms", Target: atMost(50)},
		{Item: "12b", Name: "the same, under as many callers as there are connections", Unit: "ms", Target: atMost(100)},
	},
	run: runRebuild,
}

// openBefore is the number of open orders before the first rebuild.
const openBefore = 100_000

// runRebuild requests rebuilds as an operator does, and polls the gate to measure the
// time that it is shut.
func runRebuild(ctx context.Context, l *bench, rows []Row) error {
	d, err := l.openStore(ctx, 0)
	if err != nil {
		return err
	}
	rdb := l.openRedis(64)
	s := &rebuilt{database: d, gate: inventory.New(rdb, inventory.Config{})}
	s.service = l.serve(ctx, shop.Config{Store: d.Store, Gate: inventory.KeeperGate{Gate: s.gate}, Redis: rdb})
	if s.sku, err = d.newSale(ctx); err != nil {
		return err
	}
	err = lab.Until(ctx, 10*time.Millisecond, "a sale is open", func(ctx context.Context) (bool, error) {
		summaries, err := s.gate.Summaries(ctx, s.sku)
		return err == nil && summaries[0].Open, err
	})
	if err != nil {
		return err
	}
	l.Progressf("  placing %d orders", openBefore)
	if err := s.place(ctx, func() bool { return s.placed.Load() < openBefore }); err != nil {
		return err
	}
	for i, rebuilding := range []measure{s.rebuild, s.rebuildUnderLoad} {
		samples, err := l.alternate(ctx, rows[i].Unit, rebuilding)
		if err != nil {
			return err
		}
		rows[i].fill(samples[0], nil)
	}
	return nil
}

// A rebuilt is the sale whose gate is rebuilt.
type rebuilt struct {
	*database
	gate    *inventory.Gate
	service *shop.Service
	sku     string
	placed  atomic.Int64
}

// place runs one caller per connection of wrk while wanted returns true. Each order has a
// new buyer.
func (s *rebuilt) place(ctx context.Context, wanted func() bool) error {
	place := placeIn(s.service, s.sku)
	_, err := s.l.call(ctx, s.l.cfg.Connections, 1, wanted, func(ctx context.Context, n int) error {
		err := place(ctx, n)
		switch {
		case err == nil:
			s.placed.Add(1)
		case errors.Is(err, inventory.ErrRebuilding), errors.Is(err, inventory.ErrBusy):
			return client.Wait(ctx, 10*time.Millisecond) // a buyer also retries after a 503
		}
		return err
	})
	return err
}

// rebuild measures for how many milliseconds the gate is shut. The CPU time is that
// of the whole rebuild, divided by the number of open orders.
func (s *rebuilt) rebuild(ctx context.Context) (sample, error) {
	began := s.placed.Load()
	stop := meter{os.Getpid(), s.l.Stores.Redis.Pid(), s.l.Stores.MySQL.Pid()}.start()
	asked := time.Now()
	epoch, err := s.RequestRebuild(ctx, s.sku)
	if err != nil {
		return sample{}, err
	}
	var shut time.Time
	var took time.Duration
	err = lab.Until(ctx, time.Millisecond, s.sku+" is rebuilt", func(ctx context.Context) (bool, error) {
		summaries, err := s.gate.Summaries(ctx, s.sku)
		if err != nil {
			return false, err
		}
		switch g := summaries[0]; {
		case !g.Open && shut.IsZero():
			shut = time.Now()
		case g.Open && g.Epoch > epoch:
			took = time.Since(shut)
			return true, nil
		}
		return false, nil
	})
	if err == nil && shut.IsZero() {
		err = fmt.Errorf("rebuild %s: the gate was never seen shut, so the outage was not measured", s.sku)
	}
	if err != nil {
		return sample{}, err
	}
	return sample{
		value: float64(took.Microseconds()) / 1e3, cpu: stop(float64(s.placed.Load())),
		note: fmt.Sprintf("of %s s that a rebuild took in all; %s orders were open, and %s more were placed meanwhile",
			report.Figure(time.Since(asked).Seconds()), report.Figure(float64(began)), report.Figure(float64(s.placed.Load()-began))),
	}, nil
}

// rebuildUnderLoad measures a rebuild while callers order.
func (s *rebuilt) rebuildUnderLoad(ctx context.Context) (one sample, err error) {
	var over atomic.Bool
	placing := make(chan error, 1)
	go func() { placing <- s.place(ctx, func() bool { return !over.Load() }) }()
	one, err = s.rebuild(ctx)
	over.Store(true)
	return one, errors.Join(err, <-placing)
}
