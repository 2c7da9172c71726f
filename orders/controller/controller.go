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
// runs their passes, and the bus connects the nodes. A resync finds the work that a lost
// message announced.
type Controller struct {
	cfg      Config
	Commits  *keeper.GroupCommit
	catalog  *store.Catalog
	health   *redisHealth
	Loops    map[string]*Loop // loops by name
	bus      *bus
	pool     *pool
	assigner *assigner
	owner    *owner
	counters keeper.Counters

	staleEpochs sync.Map                      // SKU → epoch of the stale gate that ReplaceStaleGate announced last
	clockOffset atomic.Pointer[time.Duration] // Redis's clock minus this process's; nil until a resync has read it
}

// New returns the controller of a node. It keeps no SKU until Run is called.
func New(cfg Config) *Controller {
	c := &Controller{
		cfg: cfg, catalog: store.NewCatalog(cfg.Store, cfg.Clock), Loops: newLoops(cfg.Log),
		health: &redisHealth{
			gate: cfg.Gate, log: cfg.Log, timeout: min(cfg.Keeper.Lease/5, maxProbeTimeout),
			// The number of probes in DirectConfig.EnterAfter.
			threshold: int(cfg.Direct.EnterAfter / cfg.Direct.probeEvery(cfg.Keeper.Lease)),
		},
	}
	c.Commits = keeper.NewGroupCommit(cfg.Store, MaxBatch, Workers, cfg.Keeper.Lease/4, &c.counters)
	c.bus = &bus{node: cfg.Store.Node, prefix: cfg.Prefix, rdb: cfg.Redis, health: c.health, loop: c.Loops["bus"], deliver: cfg.Deliver}
	c.assigner = &assigner{
		cfg: cfg, catalog: c.catalog, health: c.health, bus: c.bus, loop: c.Loops["assign"],
		early: make(chan struct{}, 1), handedOverAt: map[string]time.Time{},
		keepers: keeper.Config{
			Store: cfg.Store, Gate: cfg.Gate, Commits: c.Commits, MaxBatch: MaxBatch, Log: cfg.Log, Counters: &c.counters,
			ScanPasses: max(1, int64(cfg.Keeper.ReconcileHoldsEvery/(2*cfg.Keeper.ResyncEvery))), // a scan ends half-way to the next one
			Announce:   c.announce, OnCommit: c.committed,
		},
	}
	c.pool = newPool(cfg.Keeper, cfg.Log, &c.counters, c.assigner.wrote)
	c.assigner.pool = c.pool
	c.bus.believes = c.assigner.believes
	c.owner = newOwner(cfg, c.catalog, c.assigner.leads)
	c.assigner.owner = c.owner
	return c
}

// Run keeps SKUs until ctx ends, or until it finds that nodes of another database use this Redis.
// It then hands them over, and stops the locks and the bus last, because a handover needs both.
// Error: ErrShared.
func (c *Controller) Run(ctx context.Context) error {
	under, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var base errgroup.Group
	loops, ctx := errgroup.WithContext(ctx)
	base.Go(func() error { return c.cfg.Locks.Run(under) })
	base.Go(func() error { return c.bus.listen(under, c.pool.wake, c.handleHint) })
	loops.Go(func() error { return c.Loops["catalog"].Every(ctx, store.CatalogEvery, c.catalog.Renew) })
	loops.Go(func() error { return c.keep(ctx) })
	loops.Go(func() error { return c.owner.run(ctx, c.Loops["owner"]) })
	loops.Go(func() error { return c.Loops["probe"].Every(ctx, c.cfg.Direct.probeEvery(c.cfg.Keeper.Lease), c.probe) })
	err := loops.Wait()
	stop()
	return errors.Join(err, base.Wait())
}

// keep keeps SKUs until ctx ends. It then hands them over. It waits up to one lease for
// running passes, but not for a pass that hangs.
func (c *Controller) keep(ctx context.Context) error {
	cfg := c.cfg.Keeper
	var g errgroup.Group
	g.Go(func() error { c.pool.run(ctx); return nil })
	g.Go(func() error { c.assigner.run(ctx); return nil })
	g.Go(func() error { return c.Loops["heartbeat"].Every(ctx, min(maxBeatEvery, cfg.Lease/4), c.assigner.beat) })
	g.Go(func() error { return c.Loops["resync"].Every(ctx, cfg.ResyncEvery, c.resync) })
	g.Go(func() error { return new(Loop).Every(ctx, cfg.assignEvery(), c.assigner.releaseStalled) }) // always returns nil
	err := g.Wait()
	c.assigner.leave()
	return err
}

// handleHint acts on a hint about a SKU. If this node does not keep the SKU and no other node
// is preferred for it, handleHint starts an assignment.
func (c *Controller) handleHint(sku string) {
	if !c.pool.wake(sku, keeper.ReleaseHolds|keeper.CorrectGate) && !c.assigner.isOthers(sku) {
		c.assigner.assignSoon()
	}
}

// OwnRedis makes the node's database the owner of Redis, or renews the ownership. Errors:
// ErrOtherOwner, ErrShared, ErrUnreachable, errors of the store.
func (c *Controller) OwnRedis(ctx context.Context) error { return c.owner.renew(ctx) }

// OwnsRedis reports whether the database of this node has owned Redis since the node's start.
func (c *Controller) OwnsRedis() bool { return c.owner.owns.Load() }

// ForeignRedis reports whether another database owned Redis when the node looked last, and the
// database of this node has never owned it.
func (c *Controller) ForeignRedis() bool { return c.owner.foreign.Load() }

// Rival returns the name of a node of another database that uses this Redis, or "".
func (c *Controller) Rival() string { return c.owner.rival() }

// Catalog returns this node's copy of the sales.
func (c *Controller) Catalog() *store.Catalog { return c.catalog }

// Loop returns the node's loop of that name, or nil.
func (c *Controller) Loop(name string) *Loop { return c.Loops[name] }

// Beat writes a heartbeat of this node, as Run does.
func (c *Controller) Beat(ctx context.Context) error { return c.assigner.beat(ctx) }

// CheckBeat returns an error if the latest heartbeats of this node have failed. Other nodes then
// take over the SKUs of this node.
func (c *Controller) CheckBeat(context.Context) error { return c.assigner.checkBeat() }

// RequestRelease asks the keeper of sku, on this node or another one, to release orders that
// were closed or paid.
func (c *Controller) RequestRelease(ctx context.Context, sku string) {
	c.request(ctx, sku, keeper.ReleaseHolds)
}

// RequestInspect asks the keeper of sku to compare the gate with the sale's row.
func (c *Controller) RequestInspect(ctx context.Context, sku string) {
	c.request(ctx, sku, keeper.CorrectGate)
}

func (c *Controller) request(ctx context.Context, sku string, todo keeper.Work) {
	if !c.pool.wake(sku, todo) {
		c.bus.hint(ctx, sku)
	}
}

// RequestKeeper asks the nodes for a keeper of sku, because the sale is new or is on again.
func (c *Controller) RequestKeeper(ctx context.Context, sku string) {
	c.assigner.assignSoon()
	c.bus.hint(ctx, sku)
}

// KeptSKUs returns the SKUs that this node keeps.
func (c *Controller) KeptSKUs() []string { return c.pool.skus() }

// Counters returns the counters of this node's keepers and sweeper.
func (c *Controller) Counters() *keeper.Counters { return &c.counters }

// RedisDown reports whether a Redis master is down for this node (see GateUntrusted).
func (c *Controller) RedisDown() bool { return len(c.health.downMasters()) > 0 }

// GateUntrusted reports whether the Redis master of sku is down for this node. A master is
// down after it has refused this node's writes for DirectConfig.EnterAfter, until it has accepted
// them for the same time.
func (c *Controller) GateUntrusted(sku string) bool { return c.health.gateUntrusted(sku) }

// Stats returns the results of the last resync.
func (c *Controller) Stats() Stats { return c.pool.stats() }

// committed passes a commit on to Config.OnCommit, with the clock offset that Commit.Lag needs.
func (c *Controller) committed(commit *keeper.Commit) {
	commit.ClockOffset = c.clockOffset.Load()
	c.cfg.OnCommit(commit)
}

// Balances returns the result of the last comparison for each SKU that this node keeps. If the
// keeper has not compared the stores yet, the Balance is zero.
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
