package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/inventory"
	"flashsale/orders"
)

var rebuild = benchmark{
	name:  "rebuild",
	about: "for how long a gate is shut while it is rebuilt, with 100,000 open orders",
	rows: []Row{
		{Item: "12a", Name: "gate shut for a rebuild, 100,000 open orders", Unit: "ms", Target: atMost(500)},
		{Item: "12b", Name: "the same, under as many callers as there are connections", Unit: "ms", Target: atMost(500)},
	},
	run: runRebuild,
}

// openBefore is how many orders are open when the first rebuild begins.
const openBefore = 100_000

// runRebuild has a service rebuild a gate as an operator asks it to, and looks
// at the gate all the time.
func runRebuild(ctx context.Context, l *lab, rows []Row) (err error) {
	rdb, err := l.openRedis(64)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.closeRedis(rdb)) }()
	_, dsn, closeDB, err := l.openMySQL(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDB()) }()
	store, err := orders.Open(dsn, orders.StoreConfig{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := store.Migrate(ctx); err != nil {
		return err
	}
	gate := inventory.New(rdb, inventory.Config{})
	service := orders.New(orders.Config{Store: store, Gate: gate, Redis: rdb, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	running, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- service.Run(running) }()
	defer func() { stop(); err = errors.Join(err, <-stopped) }()

	s := &rebuilt{l: l, store: store, gate: gate, service: service, sku: l.next("rebuilt")}
	if err := newSale(ctx, store, s.sku); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := poll(within, 10*time.Millisecond, func() (bool, error) { return s.open(ctx) }); err != nil {
		return fmt.Errorf("open a sale: %w", err)
	}
	l.say("  placing %d orders", openBefore)
	if err := s.place(ctx, func() bool { return s.placed.Load() < openBefore }); err != nil {
		return err
	}
	for i, busy := range []bool{false, true} {
		var samples []sample
		for round := range l.cfg.Rounds {
			rebuilding := s.rebuild
			if busy {
				rebuilding = s.rebuildUnderLoad
			}
			one, err := rebuilding(ctx)
			if err != nil {
				return err
			}
			l.say("  round %d of %d: shut for %s ms", round+1, l.cfg.Rounds, figure(one.value))
			samples = append(samples, one)
		}
		rows[i].Ours, rows[i].CPU = median(values(samples)), medianCPU(samples)
		rows[i].Note = samples[len(samples)-1].note
		rows[i].judge()
	}
	return nil
}

// A rebuilt sale is one that is.
type rebuilt struct {
	l       *lab
	store   *orders.Store
	gate    *inventory.Gate
	service *orders.Service
	sku     string
	buyers  atomic.Int64
	placed  atomic.Int64
}

func (s *rebuilt) open(ctx context.Context) (bool, error) {
	glances, err := s.gate.Glance(ctx, s.sku)
	return err == nil && glances[0].Open, err
}

// place has as many callers as wrk has connections order as long as it is
// wanted, each for a buyer of its own.
func (s *rebuilt) place(ctx context.Context, wanted func() bool) error {
	callers, ctx := errgroup.WithContext(ctx)
	for range s.l.cfg.Connections {
		callers.Go(func() error {
			for wanted() {
				_, buyer, key := orderNumber(0, int(s.buyers.Add(1)))
				_, err := s.service.Place(ctx, orders.Placement{Buyer: buyer, SKU: s.sku, Quantity: 1, Key: key})
				switch {
				case err == nil:
					s.placed.Add(1)
				case errors.Is(err, inventory.ErrRebuilding), errors.Is(err, inventory.ErrBusy):
					select { // as a buyer who is told to come back
					case <-time.After(10 * time.Millisecond):
					case <-ctx.Done():
						return ctx.Err()
					}
				default:
					return err
				}
			}
			return nil
		})
	}
	return callers.Wait()
}

// rebuild measures for how many milliseconds the gate is shut, as anybody sees
// it. CPU time is of the whole rebuild, for each open order.
func (s *rebuilt) rebuild(ctx context.Context) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := s.placed.Load()
	stop := meter{app: os.Getpid(), redis: s.l.redis.Pid(), mysql: s.l.mysql.Pid()}.start()
	asked := time.Now()
	epoch, err := s.store.AskRebuild(ctx, s.sku)
	if err != nil {
		return sample{}, err
	}
	var shut time.Time
	var took time.Duration
	err = poll(ctx, time.Millisecond, func() (bool, error) {
		glances, err := s.gate.Glance(ctx, s.sku)
		if err != nil {
			return false, err
		}
		switch g := glances[0]; {
		case !g.Open && shut.IsZero():
			shut = time.Now()
		case g.Open && g.Epoch > epoch:
			took = time.Since(shut)
			return true, nil
		}
		return false, nil
	})
	if err == nil && shut.IsZero() {
		err = errors.New("it was not seen shut")
	}
	if err != nil {
		return sample{}, fmt.Errorf("rebuild %s: %w", s.sku, err)
	}
	return sample{
		value: float64(took.Microseconds()) / 1e3, cpu: stop(float64(s.placed.Load())),
		note: fmt.Sprintf("of %s s that a rebuild took in all; %s orders were open, and %s more were placed meanwhile",
			figure(time.Since(asked).Seconds()), figure(float64(began)), figure(float64(s.placed.Load()-began))),
	}, nil
}

// rebuildUnderLoad is rebuild while callers order.
func (s *rebuilt) rebuildUnderLoad(ctx context.Context) (one sample, err error) {
	var over atomic.Bool
	placing := make(chan error, 1)
	go func() { placing <- s.place(ctx, func() bool { return !over.Load() }) }()
	one, err = s.rebuild(ctx)
	over.Store(true)
	return one, errors.Join(err, <-placing)
}
