package controller

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/orders/keeper"
	"flashsale/orders/store"
)

// A Controller runs this node's keepers. The assigner decides which SKUs they keep, the pool
// runs their passes, and the bus connects the nodes. A resync finds what a lost message
// would have caused.
type Controller struct {
	cfg      Config
	Commits  *keeper.GroupCommit
	catalog  *store.Catalog
	health   *redisHealth
	Loops    map[string]*Loop // by name
	bus      *bus
	pool     *pool
	assigner *assigner
	count    keeper.Counters

	staleEpochs sync.Map                      // SKU → epoch of the stale gate that was announced last: see Stale
	clockOffset atomic.Pointer[time.Duration] // Redis's clock, less this one's: nil until it was asked
}

// New returns the controller of a node. It keeps nothing until Run runs.
func New(cfg Config) *Controller {
	c := &Controller{
		cfg: cfg, catalog: store.NewCatalog(cfg.Store, cfg.Clock), Loops: newLoops(cfg.Log),
		health: &redisHealth{
			gate: cfg.Gate, log: cfg.Log, timeout: min(cfg.Keeper.Lease/5, maxProbeTimeout),
			// As long as it takes a master that does not answer to be down.
			lasts: int(cfg.Direct.After / cfg.Direct.probeEvery(cfg.Keeper.Lease)),
		},
	}
	c.Commits = keeper.NewGroupCommit(cfg.Store, Batch, Workers, cfg.Keeper.Lease/4, &c.count)
	c.bus = &bus{node: cfg.Store.Node, rdb: cfg.Redis, health: c.health, loop: c.Loops["bus"], deliver: cfg.Deliver}
	c.assigner = &assigner{
		cfg: cfg, catalog: c.catalog, health: c.health, bus: c.bus, loop: c.Loops["assign"],
		early: make(chan struct{}, 1), handedOverAt: map[string]time.Time{},
		keepers: keeper.Config{
			Store: cfg.Store, Gate: cfg.Gate, Commits: c.Commits, Batch: Batch, Log: cfg.Log, Count: &c.count,
			Rounds:   max(1, int64(cfg.Keeper.ReconcileHoldsEvery/(2*cfg.Keeper.ResyncEvery))), // a scan takes half the time
			Announce: c.announce, Tell: c.bus.notify, OnCommit: c.committed,
		},
	}
	c.pool = newPool(cfg.Keeper, cfg.Log, &c.count, c.assigner.wrote)
	c.assigner.pool = c.pool
	return c
}

// Run keeps SKUs until ctx ends. It ends in two steps: SKUs are handed over while
// locks and messages still work.
func (c *Controller) Run(ctx context.Context) error {
	under, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var base, loops errgroup.Group
	base.Go(func() error { return c.cfg.Locks.Run(under) })
	base.Go(func() error { return c.bus.listen(under, c.pool.wake, c.handleHint) })
	loops.Go(func() error { return c.Loops["catalog"].Every(ctx, store.CatalogEvery, c.catalog.Renew) })
	loops.Go(func() error { return c.keep(ctx) })
	loops.Go(func() error { return c.Loops["probe"].Every(ctx, c.cfg.Direct.probeEvery(c.cfg.Keeper.Lease), c.probe) })
	err := loops.Wait()
	stop()
	return errors.Join(err, base.Wait())
}

// keep keeps SKUs until ctx ends. It then waits up to one lease for the passes that are
// running, and hands the SKUs over. It does not wait for a pass that hangs.
func (c *Controller) keep(ctx context.Context) error {
	cfg := c.cfg.Keeper
	var g errgroup.Group
	g.Go(func() error { c.pool.run(ctx); return nil })
	g.Go(func() error { c.assigner.run(ctx); return nil })
	g.Go(func() error { return c.Loops["heartbeat"].Every(ctx, min(maxBeatEvery, cfg.Lease/4), c.assigner.beat) })
	g.Go(func() error { return c.Loops["resync"].Every(ctx, cfg.ResyncEvery, c.resync) })
	g.Go(func() error { return new(Loop).Every(ctx, cfg.assignEvery(), c.assigner.releaseStalled) }) // nothing to log or to count
	err := g.Wait()
	c.assigner.leave()
	return err
}

// handleHint acts on a hint about a SKU. If this node does not know of another node that
// keeps the SKU, it looks for free locks: the sale is new, or no node keeps it.
func (c *Controller) handleHint(sku string) {
	if !c.pool.wake(sku, keeper.Release|keeper.Inspect) && !c.assigner.isOthers(sku) {
		c.assigner.assignSoon()
	}
}

// Catalog is this node's copy of the sales.
func (c *Controller) Catalog() *store.Catalog { return c.catalog }

// Loop returns one of the node's loops by its name.
func (c *Controller) Loop(name string) *Loop { return c.Loops[name] }

// RequestRelease has the keeper of sku, here or elsewhere, look at orders that were closed
// or paid.
func (c *Controller) RequestRelease(ctx context.Context, sku string) {
	c.request(ctx, sku, keeper.Release)
}

// RequestInspect has the keeper of sku compare the gate with the database.
func (c *Controller) RequestInspect(ctx context.Context, sku string) {
	c.request(ctx, sku, keeper.Inspect)
}

func (c *Controller) request(ctx context.Context, sku string, todo keeper.Work) {
	if !c.pool.wake(sku, todo) {
		c.bus.hint(ctx, sku)
	}
}

// RequestKeeper says that a sale is new, or on again: it needs a keeper.
func (c *Controller) RequestKeeper(ctx context.Context, sku string) {
	c.assigner.assignSoon()
	c.bus.hint(ctx, sku)
}

// Kept returns the SKUs that this node keeps.
func (c *Controller) Kept() []string { return c.pool.skus() }

// Counters are what this node's keepers and sweeper have done.
func (c *Controller) Counters() *keeper.Counters { return &c.count }

// RedisDown reports whether Redis, or a master of it, has refused this node's writes for
// long (see DirectConfig.After).
func (c *Controller) RedisDown() bool { return len(c.health.downMasters()) > 0 }

// GateUntrusted reports whether the Redis master of sku is down for this node. A master is
// down once it has refused this node's writes for DirectConfig.After, until it has accepted
// them again for the same time.
func (c *Controller) GateUntrusted(sku string) bool { return c.health.gateUntrusted(sku) }

// Stats returns what the last resync found.
func (c *Controller) Stats() Stats { return c.pool.stats() }

// committed passes a keeper's transaction on, with what it takes to tell how
// late its orders are.
func (c *Controller) committed(commit *keeper.Commit) {
	commit.ClockOffset = c.clockOffset.Load()
	c.cfg.OnCommit(commit)
}

// Balances are the last ones of the SKUs that this node keeps. One that was not
// compared yet is the zero Balance.
func (c *Controller) Balances() map[string]keeper.Balance {
	all := map[string]keeper.Balance{}
	for sku, s := range c.pool.all() {
		var b keeper.Balance
		if last := s.Balance(); last != nil {
			b = *last
		}
		all[sku] = b
	}
	return all
}
