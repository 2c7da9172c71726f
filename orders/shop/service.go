package shop

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"flashsale/inventory"
	"flashsale/orders/controller"
	"flashsale/orders/keeper"
	"flashsale/orders/lock"
	"flashsale/orders/lock/lease"
	"flashsale/orders/store"
)

// A Limiter refuses abuse, with an error of its own. It is asked before an order
// is placed, after the node's memory of what is sold out and before the gate; and
// before one is paid or cancelled, then with neither address nor SKU.
type Limiter interface {
	Allow(ctx context.Context, buyer, ip, sku string) error
}

type unlimited struct{}

func (unlimited) Allow(context.Context, string, string, string) error { return nil }

// Gate is what a shop asks of the stock in Redis: package inventory's Keeping.
type Gate interface {
	controller.Gate // for this node and its keepers
	KnownSoldOut(sku, buyer string) (epoch int64, soldOut bool)
	Reserve(ctx context.Context, r inventory.Request) (inventory.Reservation, error)
	Held(ctx context.Context, orderID string, skus ...string) (sku string, h inventory.Hold, ok bool, err error)
	Inspect(ctx context.Context, sku string) (inventory.View, error)
}

// Config of a Service. Store, Gate and Redis are required; the rest has defaults.
type Config struct {
	Store   *store.Store
	Gate    Gate
	Redis   redis.UniversalClient
	Limiter Limiter // nil for none
	// Locks says who keeps a SKU. Their lease should be Keeper.LockLease. Default:
	// in Redis.
	Locks lease.Locker
	// Wait is how long a buyer waits for the order to be durable before the
	// answer is 202. Default 2 s.
	Wait time.Duration
	// MaxQuantity is the most units one request may ask for. Default 10.
	MaxQuantity int64
	// SweepEvery is how often overdue orders are looked for. Default 500 ms.
	SweepEvery time.Duration
	Keeper     controller.KeeperConfig
	Direct     controller.DirectConfig
	Log        *slog.Logger // default: slog's
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
	OnCommit func(*keeper.Commit)
}

func (c Config) withDefaults() Config {
	// What is below zero was not given, either.
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Wait = cmp.Or(max(c.Wait, 0), 2*time.Second)
	c.MaxQuantity = cmp.Or(max(c.MaxQuantity, 0), 10)
	c.SweepEvery = cmp.Or(max(c.SweepEvery, 0), 500*time.Millisecond)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Limiter == nil {
		c.Limiter = unlimited{}
	}
	if c.Trace == nil {
		c.Trace = func(context.Context) string { return "" }
	}
	if c.OnCommit == nil {
		c.OnCommit = func(*keeper.Commit) {}
	}
	c.Keeper, c.Direct = c.Keeper.WithDefaults(), c.Direct.WithDefaults()
	if c.Locks == nil {
		c.Locks = lock.New(c.Redis, lease.Config{Lease: c.Keeper.LockLease(), Logger: c.Log})
	}
	return c
}

// A Service sells: it takes orders from buyers, and runs this node's share of
// the keepers and sweepers.
type Service struct {
	cfg        Config
	store      *store.Store
	gate       Gate
	controller *controller.Controller
	catalog    *store.Catalog // the controller's
	waiters    *waiters
	direct     *sharedCommit
	onPayment  *sharedCommit
	// gateTimeout is how long an operator's call waits for the keeper to bring a
	// change to the gate.
	gateTimeout time.Duration
}

// New returns a Service. It sells once Run runs, here or on another node.
func New(cfg Config) *Service {
	cfg = cfg.withDefaults()
	s := &Service{cfg: cfg, store: cfg.Store, gate: cfg.Gate, waiters: &waiters{}, gateTimeout: 2 * time.Second}
	s.controller = controller.New(controller.Config{
		Store: cfg.Store, Gate: cfg.Gate, Redis: cfg.Redis, Locks: cfg.Locks, Clock: cfg.Clock, Log: cfg.Log,
		Deliver: s.waiters.tell, OnCommit: cfg.OnCommit, Keeper: cfg.Keeper, Direct: cfg.Direct,
	})
	s.catalog = s.controller.Catalog()
	s.direct = newSharedCommit(cfg.Store.Timeout, cfg.Direct.Max, cfg.Direct.Max, controller.Workers, s.controller.CommitDirect)
	s.direct.refused = &s.controller.Counters().DirectRefused
	s.onPayment = newSharedCommit(cfg.Store.Timeout, maxOnPayment, controller.Batch, controller.Workers, s.store.CommitOnPayment)
	return s
}

// Keepers are this node's.
func (s *Service) Keepers() *controller.Controller { return s.controller }

// Run runs all loops of this node until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var loops errgroup.Group
	loops.Go(func() error { return s.controller.Run(ctx) })
	loops.Go(func() error { return s.sweep(ctx) })
	loops.Go(func() error { return s.controller.Loops["recheck"].Every(ctx, recheckAfter/2, s.recheck) })
	err := loops.Wait()
	s.finishCalls(context.WithoutCancel(ctx))
	return err
}

// finishCalls waits until no call of this node's groups is under way, and not for
// longer than a lease.
func (s *Service) finishCalls(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Keeper.Lease)
	defer cancel()
	for _, group := range []interface{ Wait(context.Context) error }{s.controller.Commits, s.direct, s.onPayment, s.store} {
		if err := group.Wait(ctx); err != nil {
			s.cfg.Log.Warn("a transaction hangs, and is not waited for", "error", err)
			return
		}
	}
}

// recheckAfter is when a waiting caller's order is looked for in the database:
// the message that tells of it may have been lost.
const recheckAfter = 250 * time.Millisecond

// recheck looks for the orders of callers who have waited for long.
func (s *Service) recheck(ctx context.Context) error {
	ids := s.waiters.overdue(recheckAfter, 500)
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.store.Timeout)
	defer cancel()
	rows, err := s.store.OrdersByID(ctx, ids)
	if err == nil && len(rows) > 0 {
		err = s.store.Barrier(ctx)
	}
	for i := range rows {
		if err == nil {
			s.waiters.tell(controller.Notice{ID: rows[i].ID, Order: &rows[i]})
		}
	}
	return err // they wait on
}
