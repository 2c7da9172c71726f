package controller

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"flashsale/orders"
	"flashsale/orders/keeper"
	"flashsale/orders/lock/lease"
	"flashsale/orders/store"
)

// Config of a Controller. All of it is required but OnCommit.
type Config struct {
	Store *store.Store
	Gate  Gate
	Redis redis.UniversalClient
	Locks lease.Locker // says who keeps a SKU; its Run is run here
	Clock func() time.Time
	Log   *slog.Logger
	// Deliver hears what became of orders whose callers wait on this node. It must
	// not block.
	Deliver  func(...Notice)
	OnCommit func(*keeper.Commit) // hears of each transaction, for metrics and traces; it must not block
	Keeper   KeeperConfig
	Direct   DirectConfig
}

// A Controller has a keeper for each SKU that this node keeps: a keyed work queue,
// one leader for each key, and a resync for what got lost. However many SKUs there
// are, a few workers serve them, and one lock client renews their locks.
type Controller struct {
	node        string
	store       *store.Store
	Commits     *keeper.GroupCommit
	gate        Gate
	locks       lease.Locker
	catalog     *store.Catalog
	redis       *redisHealth
	loops       map[string]*Loop
	bus         *bus
	probeEvery  time.Duration
	staleEpochs sync.Map // SKU → epoch of the stale gate that was announced last: see Stale
	report      func(*keeper.Commit)
	log         *slog.Logger
	cfg         KeeperConfig
	count       keeper.Counters
	clockOffset atomic.Pointer[time.Duration] // Redis's clock, less this one's: nil until it was asked
	beaten      atomic.Pointer[time.Time]     // when this node last wrote to the database: nil for never

	busy     chan struct{}  // passes that do more than drain a queue
	letting  sync.WaitGroup // those who release locks for the watchdog
	reassign chan struct{}  // asks for an early look at who keeps what; of one

	mu           sync.Mutex
	slots        map[string]*slot
	due          []*slot              // to be run, oldest first
	scans        int                  // begun in this resync
	signal       chan struct{}        // due has grown; as many as there are workers
	backoffUntil map[string]time.Time // until when not to take a SKU: fenced off from it
	handedOverAt map[string]time.Time // when a SKU was given up for another node, while nodes were these
	nodes        []store.Node         // alive, this one among them
}

// New returns the controller of a node. It keeps nothing until Run runs.
func New(cfg Config) *Controller {
	probeEvery := cfg.Direct.probeEvery(cfg.Keeper.Lease)
	c := &Controller{
		node: cfg.Store.Node, store: cfg.Store, gate: cfg.Gate, locks: cfg.Locks, loops: newLoops(cfg.Log),
		// As long as it takes a master that does not answer to be down.
		redis: &redisHealth{
			gate: cfg.Gate, log: cfg.Log, timeout: min(cfg.Keeper.Lease/5, maxProbeTimeout), lasts: int(cfg.Direct.After / probeEvery),
		}, probeEvery: probeEvery,
		catalog: store.NewCatalog(cfg.Store, cfg.Clock),
		report:  cfg.OnCommit, log: cfg.Log, cfg: cfg.Keeper,
		reassign: make(chan struct{}, 1),
		slots:    map[string]*slot{}, backoffUntil: map[string]time.Time{}, handedOverAt: map[string]time.Time{},
		signal: make(chan struct{}, draining+cfg.Keeper.Workers), busy: make(chan struct{}, cfg.Keeper.Workers),
	}
	c.bus = &bus{node: c.node, rdb: cfg.Redis, health: c.redis, loop: c.loops["bus"], deliver: cfg.Deliver}
	c.Commits = keeper.NewGroupCommit(cfg.Store, cfg.Keeper.Batch, cfg.Keeper.Workers, cfg.Keeper.Lease/4, &c.count)
	return c
}

// one is the keeper of a sale, of which the lock is held.
func (c *Controller) one(sale *orders.Sale) *keeper.Keeper {
	return keeper.New(sale, keeper.Config{
		Store: c.store, Gate: c.gate, Commits: c.Commits, Batch: c.cfg.Batch, Log: c.log, Count: &c.count,
		Rounds:   max(1, int64(c.cfg.ReconcileHoldsEvery/(2*c.cfg.ResyncEvery))), // a scan takes half the time
		Announce: c.announce, Tell: c.bus.notify, OnCommit: c.committed,
	})
}

// Run keeps SKUs until ctx ends. It ends in two steps: SKUs are handed over while
// locks and messages still work.
func (c *Controller) Run(ctx context.Context) error {
	under, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var base, loops errgroup.Group
	base.Go(func() error { return c.locks.Run(under) })
	base.Go(func() error {
		return c.bus.listen(under, func(sku string) { c.wake(sku, keeper.Drain) }, c.follow)
	})
	loops.Go(func() error { return c.loops["catalog"].Every(ctx, store.CatalogEvery, c.catalog.Renew) })
	loops.Go(func() error { return c.keep(ctx) })
	loops.Go(func() error { return c.loops["probe"].Every(ctx, c.probeEvery, c.probe) })
	err := loops.Wait()
	stop()
	return errors.Join(err, base.Wait())
}

// keep keeps SKUs until ctx ends, and then hands them over at once: passes that
// are under way end first, within one lease, and no pass that hangs is waited
// for.
func (c *Controller) keep(ctx context.Context) error {
	late, cancel := outlive(ctx, c.cfg.Lease)
	defer cancel()
	var g errgroup.Group
	for range draining + c.cfg.Workers {
		g.Go(func() error { c.work(ctx, late); return nil })
	}
	g.Go(func() error { c.assign(ctx); return nil })
	g.Go(func() error { return c.loops["heartbeat"].Every(ctx, min(maxBeatEvery, c.cfg.Lease/4), c.beat) })
	g.Go(func() error { return c.loops["resync"].Every(ctx, c.cfg.ResyncEvery, c.resync) })
	g.Go(func() error { return new(Loop).Every(ctx, c.cfg.assignEvery(), c.watchdog) }) // nothing to log or to count
	err := g.Wait()
	c.letting.Wait()
	c.leave()
	c.giveUpAll(c.all(), c.cfg.Lease/10)
	return err
}

// Wait waits until no transaction of the keepers is under way, or ctx ends.
func (c *Controller) Wait(ctx context.Context) error { return c.Commits.Wait(ctx) }

// Catalog is this node's copy of the sales.
func (c *Controller) Catalog() *store.Catalog { return c.catalog }

// Loop returns one of the node's loops by its name.
func (c *Controller) Loop(name string) *Loop { return c.loops[name] }

// RequestRelease has the keeper of sku, here or elsewhere, look at orders that were closed
// or paid.
func (c *Controller) RequestRelease(ctx context.Context, sku string) {
	c.ask(ctx, sku, keeper.Release)
}

// RequestInspect has the keeper of sku compare the gate with the database.
func (c *Controller) RequestInspect(ctx context.Context, sku string) {
	c.ask(ctx, sku, keeper.Inspect)
}

func (c *Controller) ask(ctx context.Context, sku string, todo keeper.Work) {
	if !c.wake(sku, todo) {
		c.bus.hint(ctx, sku)
	}
}

// RequestKeeper says that a sale is new, or on again: it needs a keeper.
func (c *Controller) RequestKeeper(ctx context.Context, sku string) {
	c.lookForFree()
	c.bus.hint(ctx, sku)
}

// Kept returns the SKUs that this node keeps.
func (c *Controller) Kept() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.slots))
}

// Counters are what this node's keepers and sweeper have done.
func (c *Controller) Counters() *keeper.Counters { return &c.count }

// RedisDown reports whether Redis, or a master of it, has refused this node's writes for
// long (see DirectConfig.After).
func (c *Controller) RedisDown() bool { return len(c.redis.downMasters()) > 0 }

// GateUntrusted reports whether this node takes the Redis master of sku for down. A master is down
// once it has refused this node's writes for DirectConfig.After, until it has accepted
// them again for the same time.
func (c *Controller) GateUntrusted(sku string) bool {
	return c.redis.gateUntrusted(sku)
}

// Sales is how many sales this node knows to be of interest still. Each should
// have a keeper, on one of the nodes, unless it is sold in direct mode.
func (c *Controller) Sales() int { return len(c.catalog.All()) }

// Stats are how the SKUs are that this node keeps, as the last resync saw
// them.
type Stats struct {
	Kept    int           // SKUs
	Queued  int64         // orders in their queues
	Longest int64         // in one queue
	Oldest  time.Duration // for how long an order has been waiting

	Drifting int   // SKUs whose gate was not what the database says, when last compared
	Drift    int64 // their units that nobody can account for, or of which there are too many
}

// Stats adds up what the last resync saw.
func (c *Controller) Stats() (all Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all.Kept = len(c.slots)
	for _, p := range c.slots {
		all.Queued += p.waiting.orders
		all.Longest = max(all.Longest, p.waiting.orders)
		if p.waiting.orders > 0 && !p.waiting.since.IsZero() {
			all.Oldest = max(all.Oldest, time.Since(p.waiting.since))
		}
		if b := p.Balance(); b != nil && b.Off {
			all.Drifting++
			all.Drift += max(b.Drift, -b.Drift)
		}
	}
	return all
}

// committed passes a keeper's transaction on, with what it takes to tell how
// late its orders are.
func (c *Controller) committed(commit *keeper.Commit) {
	commit.ClockOffset = c.clockOffset.Load()
	c.report(commit)
}

// Balances are the last ones of the SKUs that this node keeps. One that was not
// compared yet is the zero Balance.
func (c *Controller) Balances() map[string]keeper.Balance {
	all := map[string]keeper.Balance{}
	for _, p := range c.all() {
		var b keeper.Balance
		if last := p.Balance(); last != nil {
			b = *last
		}
		all[p.sku] = b
	}
	return all
}

// LoopFailures count the turns of each of this node's loops that failed, by the
// loop's name. Passes of keepers are counted by Counters.Failed.
func (c *Controller) LoopFailures() map[string]func() int64 {
	failures := make(map[string]func() int64, len(c.loops))
	for name, l := range c.loops {
		failures[name] = l.failures.Load
	}
	return failures
}
