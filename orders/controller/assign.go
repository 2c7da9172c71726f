package controller

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/orders"
	"flashsale/orders/keeper"
	"flashsale/orders/lock/lease"
	"flashsale/orders/store"
)

// Who keeps what: each SKU has one node among those alive that should keep it
// (rendezvous hashing: all agree without talking, and a node that comes or
// goes moves no more SKUs than its share). The lock decides who does. A SKU
// whose lock stays free is taken by anybody.

// assign runs until ctx ends.
func (c *Controller) assign(ctx context.Context) {
	tick := time.NewTicker(c.cfg.assignEvery())
	defer tick.Stop()
	_ = c.beat(ctx)                // first: who else is there
	free := map[string]time.Time{} // since when this node has seen a lock free
	for {
		var err error
		free, err = c.assignOnce(ctx, free)
		c.loops["assign"].Record(ctx, err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.reassign:
			// A node came or went, or a sale is new: what this one knows is old.
			_ = c.catalog.Refresh(ctx)
			_ = c.beat(ctx)
		}
	}
}

// beat writes this node's heartbeat and learns who else is alive. While the
// database is away, the last answer stands.
func (c *Controller) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxBeatEvery)
	defer cancel()
	nodes, err := c.store.Beat(ctx, c.node, c.redis.downMasters(), c.cfg.Lease)
	if err != nil {
		return err
	}
	now := time.Now()
	c.beaten.Store(&now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.EqualFunc(c.nodes, nodes, func(a, b store.Node) bool { return a.ID == b.ID && a.Unwritable == b.Unwritable }) {
		c.nodes = nodes
		clear(c.handedOverAt)
	}
	return nil
}

func (c *Controller) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := c.store.Leave(ctx, c.node); err != nil {
		c.log.Debug("heartbeat not removed", "error", err)
	}
}

// assignOnce gives up what another node should keep, and takes what is free:
// at once where it is this node's, else if nobody else has for a while. It
// returns what it found free and did not get, and since when.
func (c *Controller) assignOnce(ctx context.Context, freeBefore map[string]time.Time) (map[string]time.Time, error) {
	sales, _, err := c.catalog.Sales(ctx)
	if err != nil {
		return freeBefore, err
	}
	move, others := c.plan(sales)
	c.giveUpAll(move, c.cfg.Lease/2)
	if len(others) == 0 {
		return nil, nil
	}
	keys := make([]string, len(others))
	for i := range others {
		keys[i] = lockKey(others[i].sku)
	}
	left, err := c.locks.Remaining(ctx, keys...)
	if err != nil {
		return freeBefore, err
	}
	var g errgroup.Group
	g.SetLimit(c.cfg.Workers)
	free := map[string]time.Time{}
	for i, one := range others {
		if left[i] > 0 {
			continue
		}
		since, before := freeBefore[one.sku]
		if !before {
			since = time.Now()
		}
		free[one.sku] = since
		if time.Since(since) >= one.freeFor && !c.yields(ctx, one.sku) {
			g.Go(func() error { c.tryTake(ctx, one.sku); return nil })
		}
	}
	_ = g.Wait()
	return free, nil
}

// handOverAgain is how many leases a node waits before it hands over a SKU again that it
// has taken back. When a node joins or leaves, the wait ends.
const handOverAgain = 10

// A candidate is a SKU that this node does not keep, and for how long its lock
// must have been free before this node takes it.
type candidate struct {
	sku     string
	freeFor time.Duration
}

// plan returns the slots to give up, and the SKUs that this node may take.
func (c *Controller) plan(sales []orders.Sale) (move []*slot, others []candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, round := time.Now(), c.cfg.assignEvery()
	over := maps.Clone(c.slots) // less all that is still of interest
	for _, sale := range sales {
		if sale.Mode == orders.ModeOver {
			continue
		}
		delete(over, sale.SKU)
		mine := c.isMine(sale.SKU)
		moved := now.Sub(c.handedOverAt[sale.SKU]) < c.cfg.Lease
		p := c.slots[sale.SKU]
		switch {
		case p == nil && now.Before(c.backoffUntil[sale.SKU]):
		case p == nil && now.Sub(c.wrote(sale.SKU)) > c.cfg.Lease: // this node could do nothing for it
		case p == nil && sale.Mode == orders.ModeDirect && c.redis.gateUntrusted(sale.SKU): // sold well as it is, until Redis is back for good
		case p == nil && mine:
			others = append(others, candidate{sale.SKU, 0})
		case p == nil && moved: // the one that it was moved to may be busy with others
			others = append(others, candidate{sale.SKU, 3 * round})
		case p == nil: // after most of a round of everybody's, the one whose it is has looked
			others = append(others, candidate{sale.SKU, round * 3 / 4})
		case !mine && len(c.nodes) > 0 && now.Sub(c.handedOverAt[sale.SKU]) > handOverAgain*c.cfg.Lease:
			// If this node keeps the SKU again, the other node was not able to take it.
			c.handedOverAt[sale.SKU] = now
			move = append(move, p)
		}
	}
	return slices.AppendSeq(move, maps.Values(over)), others
}

// yields reports whether this node must not take a SKU although its lock is free in this
// Redis. After a failover two Redis masters may be in use, each with a lock of its own.
// The keepers of both would fence each other off in turn. Therefore a node at the old
// master leaves the SKU to its latest keeper, if that node is alive.
func (c *Controller) yields(ctx context.Context, sku string) bool {
	sale := c.catalog.Known(sku)
	if sale == nil || !sale.HasGate() || !c.isAble(sale.Keeper, sku) {
		return false
	}
	summaries, err := c.gate.Summaries(ctx, sku)
	if err != nil || !summaries[0].Exists {
		return false
	}
	g := summaries[0]
	return !g.Promoted && (g.Epoch < sale.Epoch || sale.Mode == orders.ModeChanging && !g.Stale)
}

// isAble reports whether node is another node, is alive, and writes to the master of sku.
func (c *Controller) isAble(node, sku string) bool {
	master, _ := c.redis.master(sku)
	c.mu.Lock()
	defer c.mu.Unlock()
	return node != c.node && slices.ContainsFunc(c.nodes, func(n store.Node) bool { return n.ID == node && n.Writes(master) })
}

func (c *Controller) tryTake(ctx context.Context, sku string) {
	err := c.take(ctx, sku)
	if err != nil && !errors.Is(err, lease.ErrHeld) && ctx.Err() == nil {
		c.log.Warn("takeover failed", "sku", sku, "error", err)
	}
}

// take becomes the keeper of sku: the lock, then the fence from the database.
// Only then does anything else happen.
func (c *Controller) take(ctx context.Context, sku string) error {
	held, err := c.locks.TryAcquire(ctx, lockKey(sku))
	if err != nil {
		return err
	}
	sale, err := c.claim(ctx, held, sku)
	if err != nil {
		return errors.Join(err, held.Release(context.Background()))
	}
	p := &slot{Keeper: c.one(sale), sku: sku, held: held, stopped: make(chan struct{})}
	c.count.TakenOver.Add(1)
	c.log.Info("keeper started", "sku", sku, "fence", sale.Fence)

	c.mu.Lock()
	c.slots[sku] = p
	c.enqueue(p, keeper.Release|keeper.Inspect)
	c.mu.Unlock()
	context.AfterFunc(held.Context(), func() {
		if cause := context.Cause(held.Context()); errors.Is(cause, lease.ErrLost) {
			c.count.Lost.Add(1)
			c.log.Warn("lock of a SKU lost", "sku", sku, "cause", cause)
		}
		c.giveUp(p, 0, 0)
	})
	return nil
}

// claim raises the fence. A database that hangs must hold up
// neither the SKUs that come after this one nor the node's end.
func (c *Controller) claim(ctx context.Context, held *lease.Lock, sku string) (*orders.Sale, error) {
	within, cancel := context.WithTimeout(held.Context(), c.cfg.Lease/2)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	return c.store.TakeOver(within, sku)
}

// isMine tells whether this node should keep sku: of those that are alive and
// write to its master, it has the highest score. The caller has mu.
func (c *Controller) isMine(sku string) bool {
	master, _ := c.redis.master(sku)
	var able []string
	for _, n := range c.nodes {
		if n.Writes(master) {
			able = append(able, n.ID)
		}
	}
	return ShouldKeep(able, sku) == c.node
}

// written tells whether a node that was alive at this one's last heartbeat
// writes to a master.
func (c *Controller) written(master string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.nodes, func(n store.Node) bool { return n.Writes(master) })
}

// isOthers tells whether sku is a sale that another node should keep, and so
// most likely does.
func (c *Controller) isOthers(sku string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.catalog.Known(sku) != nil && !c.isMine(sku)
}

// ShouldKeep is the node with the highest score for sku.
func ShouldKeep(nodes []string, sku string) (best string) {
	var top uint64
	for _, node := range nodes {
		h := fnv.New64a()
		_, _ = h.Write([]byte(node + "/" + sku))
		if score := mix(h.Sum64()); best == "" || score > top {
			best, top = node, score
		}
	}
	return best
}

// mix spreads FNV's weak high bits (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (c *Controller) lookForFree() {
	select {
	case c.reassign <- struct{}{}:
	default: // it is about to look anyway
	}
}

// follow acts on a hint about a SKU. A node that does not know that another one
// keeps it looks for locks that are free: the sale is new, or nobody keeps it.
func (c *Controller) follow(sku string) {
	if !c.wake(sku, keeper.Release|keeper.Inspect) && !c.isOthers(sku) {
		c.lookForFree()
	}
}

func lockKey(sku string) string { return "lock:{" + sku + "}" }

// wrote is when this node last wrote to both stores of sku, zero for never.
func (c *Controller) wrote(sku string) time.Time {
	_, m := c.redis.master(sku)
	beaten := c.beaten.Load()
	switch {
	case beaten == nil:
		return time.Time{}
	case m.wrote.Before(*beaten):
		return m.wrote
	}
	return *beaten
}

// giveUpAll lets go of several slots.
func (c *Controller) giveUpAll(slots []*slot, timeout time.Duration) {
	if len(slots) == 0 {
		return
	}
	c.each(slots, func(p *slot) { c.giveUp(p, timeout, 0) })
}

// each does one thing with several slots, a few at a time, and then has the
// nodes look for SKUs that nobody keeps.
func (c *Controller) each(slots []*slot, do func(*slot)) {
	var g errgroup.Group
	g.SetLimit(c.cfg.Workers)
	for _, p := range slots {
		g.Go(func() error { do(p); return nil })
	}
	_ = g.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.bus.hint(ctx, "")
}

// vacate removes this node's name as the latest keeper of the SKU, so that the other nodes
// do not leave the SKU to this node (see yields).
func (c *Controller) vacate(p *slot) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Lease/5)
	defer cancel()
	if err := c.store.Vacate(ctx, p.sku, p.Fence()); err != nil {
		c.log.Debug("keeper's name not removed", "sku", p.sku, "error", err)
	}
}
