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

// A Limiter rejects callers that send too many requests. Service calls Allow before it
// places, pays or cancels an order, and returns the error of Allow unchanged. A sold-out
// refusal from the node's memory comes before that call. For payments and cancellations, ip
// and sku are empty.
type Limiter interface {
	Allow(ctx context.Context, buyer, ip, sku string) error
}

type unlimited struct{}

func (unlimited) Allow(context.Context, string, string, string) error { return nil }

// Gate contains the methods of inventory.KeeperGate that a shop, its controller and its keepers
// call.
type Gate interface {
	controller.Gate
	KnownSoldOut(sku, buyer string) (epoch int64, soldOut bool)
	Reserve(ctx context.Context, r inventory.Request) (inventory.Reservation, error)
	FindHold(ctx context.Context, orderID string, skus ...string) (sku string, h inventory.Hold, ok bool, err error)
	Inspect(ctx context.Context, sku string) (inventory.View, error)
}

// Config describes a Service. Store, Gate and Redis are required. For the other fields, a
// value that is zero or negative selects the default.
type Config struct {
	Store   *store.Store
	Gate    Gate
	Redis   redis.UniversalClient
	Prefix  string  // first part of the names of locks and channels, as in inventory.Config; default none
	Limiter Limiter // default: no limits
	// Locks contains a lock for each SKU. The holder of the lock keeps the SKU. The lease
	// of the locks should be Keeper.LockLease. Default: locks in Redis.
	Locks lease.Locker
	// Wait bounds the time for which Place waits until the order is durable. Place then
	// returns the reserved order (a 202). Default 2 s.
	Wait time.Duration
	// MaxQuantity is the maximum number of units of one order. Default 10.
	MaxQuantity int64
	// SweepEvery is the average time between two sweeps for overdue orders. Default 500 ms.
	SweepEvery time.Duration
	Keeper     controller.KeeperConfig
	Direct     controller.DirectConfig
	Log        *slog.Logger // default: slog.Default
	// Clock is this node's clock. It advances the database's time between two reads of
	// that time, so it need not be correct. Default time.Now.
	Clock func() time.Time
	// Trace returns the trace context of a request, such as a W3C traceparent, or "" if
	// the request is not traced. The context is queued with the order, so the keeper can
	// continue the trace on any node. Default: no request is traced.
	Trace func(ctx context.Context) string
	// OnCommit is called for each transaction of a keeper, for metrics and traces. It must
	// not block. Default: no calls.
	OnCommit func(*keeper.Commit)
}

func (c Config) withDefaults() Config {
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
		c.Locks = lock.New(c.Redis, lease.Config{Lease: c.Keeper.LockLease(), Prefix: c.Prefix, Logger: c.Log})
	}
	return c
}

// A Service accepts orders, payments and cancellations, and runs this node's keepers and its
// sweeper.
type Service struct {
	cfg        Config
	store      *store.Store
	gate       Gate
	controller *controller.Controller
	catalog    *store.Catalog // this node's copy of the sales, which the controller renews
	waiters    *waiters
	direct     *sharedCommit
	onPayment  *sharedCommit
	// gateTimeout bounds the time for which an operator's call waits until the keeper has
	// applied a change to the gate.
	gateTimeout time.Duration
}

// New returns a Service. Place works while Run runs on this node. The keeper of a SKU may be
// on another node.
func New(cfg Config) *Service {
	cfg = cfg.withDefaults()
	s := &Service{cfg: cfg, store: cfg.Store, gate: cfg.Gate, waiters: &waiters{}, gateTimeout: max(cfg.Wait, 2*time.Second)}
	s.controller = controller.New(controller.Config{
		Store: cfg.Store, Gate: cfg.Gate, Redis: cfg.Redis, Prefix: cfg.Prefix, Locks: cfg.Locks, Clock: cfg.Clock, Log: cfg.Log,
		Deliver: s.waiters.notify, OnCommit: cfg.OnCommit, Keeper: cfg.Keeper, Direct: cfg.Direct,
	})
	s.catalog = s.controller.Catalog()
	s.direct = newSharedCommit(cfg.Store.Timeout, cfg.Direct.MaxOrders, cfg.Direct.MaxOrders, controller.Workers, s.controller.CommitDirect)
	s.direct.refused = &s.controller.Counters().DirectRefused
	s.onPayment = newSharedCommit(cfg.Store.Timeout, maxOnPayment, controller.MaxBatch, controller.Workers, s.store.CommitOnPayment)
	return s
}

// Controller returns the controller, which runs this node's keepers.
func (s *Service) Controller() *controller.Controller { return s.controller }

// Run runs all loops of this node until ctx ends. Afterwards it waits for the transactions
// in progress, for at most Config.Keeper.Lease. Error: controller.ErrShared.
func (s *Service) Run(ctx context.Context) error {
	loops, running := errgroup.WithContext(ctx)
	loops.Go(func() error { return s.controller.Run(running) })
	loops.Go(func() error { return s.sweep(running) })
	loops.Go(func() error { return s.controller.Loops["recheck"].Every(running, recheckAfter/2, s.recheck) })
	err := loops.Wait()
	s.finishCalls(context.WithoutCancel(ctx))
	return err
}

// finishCalls waits until no transaction of this node is in progress, for at most a lease.
func (s *Service) finishCalls(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Keeper.Lease)
	defer cancel()
	for _, group := range []interface{ Wait(context.Context) error }{s.controller.Commits, s.direct, s.onPayment, s.store} {
		if err := group.Wait(ctx); err != nil {
			s.cfg.Log.Warn("the node stops while a transaction is still open after one lease; whether it was committed is visible in the database", "error", err)
			return
		}
	}
}

// recheckAfter is the time after which a caller without a notice reads the order from the
// database. The message with the notice may have been lost.
const recheckAfter = 250 * time.Millisecond

// recheck reads the orders of callers that have waited for recheckAfter. After an error the
// callers continue to wait.
func (s *Service) recheck(ctx context.Context) error {
	ids := s.waiters.overdue(recheckAfter, 500)
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.store.Timeout)
	defer cancel()
	rows, err := s.store.OrdersByID(ctx, ids)
	for i := range rows {
		s.waiters.notify(controller.Notice{ID: rows[i].ID, Order: &rows[i]})
	}
	return err
}
