package orders

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"flashsale/orders/lock"
)

// A Limiter refuses abuse, with an error of its own. It is asked after the
// node's memory of what is sold out and before the gate.
type Limiter interface {
	Allow(ctx context.Context, buyer, ip, sku string) error
}

// Config of a Service. Store, Gate and Redis are required; the rest has defaults.
type Config struct {
	Store   *Store
	Gate    Gate
	Redis   redis.UniversalClient
	Limiter Limiter // nil for none
	// Locks says who keeps a SKU. Their lease should be Keeper.LockLease. Default:
	// in Redis.
	Locks lock.Locker
	// Node names this process, once in all its life. Default a random name.
	Node string
	// Wait is how long a buyer waits for the order to be durable before the
	// answer is 202. Default 2 s.
	Wait time.Duration
	// MaxQuantity is the most units one request may ask for. Default 10.
	MaxQuantity int64
	// SweepEvery is how often overdue orders are looked for. Default 500 ms.
	SweepEvery time.Duration
	// PerOrder carries each order into the database under a lock of its own,
	// without gate and keeper (see per_order.go). Gate is not used then.
	PerOrder bool
	Keeper   KeeperConfig
	Direct   DirectConfig
	Log      *slog.Logger // default: slog's
	// Clock is this node's clock, default time.Now. It only carries the
	// database's time on from one reading to the next: how wrong it is makes no
	// difference.
	Clock func() time.Time
	// Trace, where set, gives what a caller's trace goes on from, such as a W3C
	// traceparent; "" for one that is not traced. It is queued with the order, so
	// that the keeper can go on with the trace, on whichever node.
	Trace func(ctx context.Context) string
	// OnCommit, where set, hears of each keeper's transactions, for metrics and
	// traces. It must not block.
	OnCommit func(*Commit)
}

func (c Config) withDefaults() Config {
	if c.Node == "" {
		c.Node = uuid.NewString()
	}
	if c.Wait <= 0 {
		c.Wait = 2 * time.Second
	}
	if c.MaxQuantity <= 0 {
		c.MaxQuantity = 10
	}
	if c.SweepEvery <= 0 {
		c.SweepEvery = 500 * time.Millisecond
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.PerOrder {
		c.Gate = noGate{store: c.Store}
	}
	if c.Trace == nil {
		c.Trace = func(context.Context) string { return "" }
	}
	if c.OnCommit == nil {
		c.OnCommit = func(*Commit) {}
	}
	c.Keeper, c.Direct = c.Keeper.withDefaults(), c.Direct.withDefaults()
	if c.Locks == nil {
		c.Locks = lock.New(c.Redis, lock.Config{Lease: c.Keeper.LockLease(), Logger: c.Log})
	}
	return c
}

// A Service sells: it takes orders from buyers, and runs this node's share of
// the keepers and sweepers.
type Service struct {
	cfg     Config
	store   *Store
	gate    Gate
	catalog *catalog
	waiters *waiters
	bus     *bus
	locks   lock.Locker
	link    *link
	doubt   doubt
	keepers *Keepers
	direct  *directWay
	unheld  *line
	inLine  atomic.Int64 // buyers who wait for a lock (per_order.go)
}

// New returns a Service. It sells once Run runs, here or on another node.
func New(cfg Config) *Service {
	cfg = cfg.withDefaults()
	s := &Service{
		cfg: cfg, store: cfg.Store, gate: cfg.Gate,
		catalog: &catalog{store: cfg.Store, clock: cfg.Clock},
		waiters: &waiters{},
		bus:     &bus{rdb: cfg.Redis, node: cfg.Node},
		locks:   cfg.Locks,
		link:    &link{},
	}
	s.keepers = &Keepers{
		node: cfg.Node, store: cfg.Store, gate: cfg.Gate, locks: s.locks, catalog: s.catalog, link: s.link,
		tell: s.tell, vacated: s.vacated, report: cfg.OnCommit, log: cfg.Log, cfg: cfg.Keeper,
		reassign: make(chan struct{}, 1),
		posts:    map[string]*post{}, avoid: map[string]time.Time{}, moved: map[string]time.Time{},
		signal: make(chan struct{}, cfg.Keeper.Workers),
	}
	s.keepers.convoy = newConvoy(cfg.Store, cfg.Keeper.Batch, &s.keepers.count)
	s.direct = &directWay{
		cfg: cfg.Direct, store: cfg.Store, catalog: s.catalog, link: s.link, beat: s.keepers.beat,
		look: func(ctx context.Context) error {
			// The gate's Redis, whatever keeps the locks.
			ctx, cancel := context.WithTimeout(ctx, min(cfg.Keeper.Lease/5, time.Second))
			defer cancel()
			return cfg.Redis.Exists(ctx, lockKey("direct")).Err()
		},
		alive: cfg.Keeper.Lease, log: cfg.Log, count: &s.keepers.count,
	}
	s.direct.line = newLine(cfg.Direct.Line, cfg.Direct.Line, cfg.Keeper.Workers, s.direct.commit)
	s.direct.line.full = &s.keepers.count.DirectRefused
	s.unheld = newLine(mostUnheld, cfg.Keeper.Batch, cfg.Keeper.Workers, s.store.Unheld)
	s.bus.woken = func(sku string) { s.keepers.wake(sku, nil) }
	s.bus.ended = func(sku string) { s.keepers.wake(sku, lookAtEnded) }
	s.bus.changed = func(sku string) { s.keepers.wake(sku, lookAtGate) }
	s.bus.vacant = s.reassign
	s.bus.told = func(outcomes []told) { s.waiters.tell(outcomes...) }
	return s
}

// Run runs all loops of this node until ctx ends. They end in two steps: the
// keepers hand over while locks and messages still work.
func (s *Service) Run(ctx context.Context) error {
	under, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var base, loops errgroup.Group
	base.Go(func() error { return s.locks.Run(under) })
	base.Go(func() error { return s.bus.Run(under) })

	loops.Go(func() error { return s.catalog.Run(ctx) })
	if s.cfg.PerOrder {
		loops.Go(func() error { return s.finish(ctx) })
	} else {
		loops.Go(func() error { return s.keepers.Run(ctx) })
		if !s.store.unguarded { // a broken gate is to be seen, not gone around
			loops.Go(func() error { return s.direct.Run(ctx) })
		}
	}
	loops.Go(func() error { return s.sweep(ctx) })
	loops.Go(func() error { return s.recheck(ctx) })
	err := loops.Wait()
	stop()
	if e := base.Wait(); err == nil {
		err = e
	}
	return err
}

func lookAtEnded(k *keeper) { k.ended.Store(true) }
func lookAtGate(k *keeper)  { k.inspect.Store(true) }

// ended has the keeper of sku, here or elsewhere, look at orders that were
// closed or paid.
func (s *Service) ended(ctx context.Context, sku string) {
	if !s.keepers.wake(sku, lookAtEnded) {
		s.say(ctx, endedChannel, sku)
	}
}

// changed has the keeper of sku compare the gate with the database.
func (s *Service) changed(ctx context.Context, sku string) {
	if !s.keepers.wake(sku, lookAtGate) {
		s.say(ctx, changedChannel, sku)
	}
}

// vacated has all nodes look for SKUs that nobody keeps.
func (s *Service) vacated(ctx context.Context) { s.say(ctx, vacantChannel, "") }

// say gives all nodes a hint. Nobody waits for a Redis that is known to be away.
func (s *Service) say(ctx context.Context, channel, what string) {
	if !s.link.isLost() {
		s.bus.say(ctx, channel, what)
	}
}

func (s *Service) reassign() {
	select {
	case s.keepers.reassign <- struct{}{}:
	default: // it is about to look anyway
	}
}

// tell gives a keeper's verdicts to those who wait: here at once, elsewhere by
// message.
func (s *Service) tell(ctx context.Context, verdicts []verdict) {
	here := make([]told, 0, len(verdicts))
	var elsewhere map[string][]told
	for _, v := range verdicts {
		t := told{ID: v.queued.OrderID, Order: v.order, Refused: v.refused}
		switch node := v.queued.Node; node {
		case s.cfg.Node:
			here = append(here, t)
		case "":
		default:
			if elsewhere == nil {
				elsewhere = map[string][]told{}
			}
			elsewhere[node] = append(elsewhere[node], t)
		}
	}
	s.waiters.tell(here...)
	if err := s.bus.tell(ctx, elsewhere); err != nil {
		s.cfg.Log.Debug("tell", "error", err) // they look for themselves
	}
}

// recheckAfter is when a waiting caller's order is looked for in the database:
// the message that tells of it may have been lost.
const recheckAfter = 250 * time.Millisecond

// recheck looks for the orders of callers who have waited for long.
func (s *Service) recheck(ctx context.Context) error {
	tick := time.NewTicker(recheckAfter / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		ids := s.waiters.overdue(recheckAfter, 500)
		if len(ids) == 0 {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		rows, err := s.store.OrdersByID(bounded, ids)
		cancel()
		if err != nil {
			continue // they wait on
		}
		for i := range rows {
			s.waiters.tell(told{ID: rows[i].ID, Order: &rows[i]})
		}
	}
}
