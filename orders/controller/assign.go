package controller

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/orders"
	"flashsale/orders/keeper"
	"flashsale/orders/lock/lease"
	"flashsale/orders/store"
)

// An assigner decides which SKUs this node keeps: each SKU has one node among those alive
// that should keep it (rendezvous hashing: all agree without talking, and a node that comes
// or goes moves no more SKUs than its share). The lock decides who does. A SKU
// whose lock stays free is taken by anybody.
type assigner struct {
	cfg       Config
	keepers   keeper.Config // of the keepers that this node starts
	catalog   *store.Catalog
	health    *redisHealth
	pool      *pool
	bus       *bus
	loop      *Loop
	early     chan struct{}  // asks for an early turn; of one
	releasing sync.WaitGroup // releases of SKUs without progress

	// Only run uses these.
	freeSince    map[string]time.Time // since when a lock that this node did not get has been free
	handedOverAt map[string]time.Time // when a SKU was handed over, while the nodes were plannedFor
	plannedFor   []store.Node

	mu       sync.Mutex
	lastBeat heartbeat
}

// A heartbeat is a write of this node's row, which returned the live nodes.
type heartbeat struct {
	at    time.Time    // zero for never
	nodes []store.Node // this node among them
}

// run assigns SKUs until ctx ends.
func (a *assigner) run(ctx context.Context) {
	tick := time.NewTicker(a.cfg.Keeper.assignEvery())
	defer tick.Stop()
	_ = a.beat(ctx) // first: who else is there
	for {
		a.loop.Record(ctx, a.assign(ctx))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-a.early:
			// A node came or went, or a sale is new: what this one knows is old.
			_ = a.catalog.Refresh(ctx)
			_ = a.beat(ctx)
		}
	}
}

func (a *assigner) assignSoon() { signal(a.early) }

// beat writes this node's heartbeat and learns who else is alive. While the
// database is away, the last answer stands.
func (a *assigner) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxBeatEvery)
	defer cancel()
	nodes, err := a.cfg.Store.Beat(ctx, a.cfg.Store.Node, a.health.downMasters(), a.cfg.Keeper.Lease)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastBeat = heartbeat{at: time.Now(), nodes: nodes}
	return nil
}

func (a *assigner) last() heartbeat {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lastBeat
}

// wrote returns when this node last wrote to both stores of sku, zero for never.
func (a *assigner) wrote(sku string) time.Time {
	_, m := a.health.master(sku)
	if beat := a.last().at; beat.Before(m.wrote) {
		return beat
	}
	return m.wrote
}

// assign hands over what another node should keep, and takes what is free: at once if it
// is this node's, otherwise if no other node has taken it for a while.
func (a *assigner) assign(ctx context.Context) error {
	sales, _, err := a.catalog.Sales(ctx)
	if err != nil {
		return err
	}
	move, candidates := a.plan(sales)
	a.handOver(move, a.cfg.Keeper.Lease/2)
	if len(candidates) == 0 {
		a.freeSince = nil
		return nil
	}
	keys := make([]string, len(candidates))
	for i := range candidates {
		keys[i] = lockKey(candidates[i].sku)
	}
	left, err := a.cfg.Locks.Remaining(ctx, keys...)
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(Workers)
	free := map[string]time.Time{}
	for i, c := range candidates {
		if left[i] > 0 {
			continue
		}
		since := cmp.Or(a.freeSince[c.sku], time.Now())
		free[c.sku] = since
		if time.Since(since) >= c.freeFor && !a.yields(ctx, c.sku) {
			g.Go(func() error {
				if err := a.take(ctx, c.sku); err != nil && !errors.Is(err, lease.ErrHeld) && ctx.Err() == nil {
					a.cfg.Log.Warn("takeover failed", "sku", c.sku, "error", err)
				}
				return nil
			})
		}
	}
	_ = g.Wait()
	a.freeSince = free
	return nil
}

func lockKey(sku string) string { return "lock:{" + sku + "}" }

// handOverAgain is how many leases a node waits before it hands over a SKU again that it
// has taken back. When a node joins or leaves, the wait ends.
const handOverAgain = 10

// A candidate is a SKU that this node does not keep, and for how long its lock
// must have been free before this node takes it.
type candidate struct {
	sku     string
	freeFor time.Duration
}

// plan returns the slots to hand over, and the SKUs that this node may take.
func (a *assigner) plan(sales []orders.Sale) (move []*slot, candidates []candidate) {
	nodes, now, term, turn := a.last().nodes, time.Now(), a.cfg.Keeper.Lease, a.cfg.Keeper.assignEvery()
	if !slices.EqualFunc(a.plannedFor, nodes, func(a, b store.Node) bool { return a.ID == b.ID && a.Unwritable == b.Unwritable }) {
		a.plannedFor = nodes
		clear(a.handedOverAt)
	}
	over := a.pool.all() // less all that is still of interest
	for _, sale := range sales {
		if sale.Mode == orders.ModeOver {
			continue
		}
		sku, s := sale.SKU, over[sale.SKU]
		delete(over, sku)
		mine, sinceHandOver := a.isMine(sku, nodes), now.Sub(a.handedOverAt[sku])
		switch {
		case s == nil && a.pool.backsOff(sku):
		case s == nil && now.Sub(a.wrote(sku)) > term: // this node could do nothing for it
		case s == nil && sale.Mode == orders.ModeDirect && a.health.gateUntrusted(sku): // sold well as it is, until Redis is back for good
		case s == nil && mine:
			candidates = append(candidates, candidate{sku, 0})
		case s == nil && sinceHandOver < term: // the one that it was moved to may be busy with others
			candidates = append(candidates, candidate{sku, 3 * turn})
		case s == nil: // after most of a turn of everybody's, the one whose it is has looked
			candidates = append(candidates, candidate{sku, turn * 3 / 4})
		case !mine && len(nodes) > 0 && sinceHandOver > handOverAgain*term:
			// If this node keeps the SKU again, the other node was not able to take it.
			a.handedOverAt[sku] = now
			move = append(move, s)
		}
	}
	return slices.AppendSeq(move, maps.Values(over)), candidates
}

// isMine reports whether this node should keep sku: among the nodes that write to its
// master, it has the highest score.
func (a *assigner) isMine(sku string, nodes []store.Node) bool {
	master, _ := a.health.master(sku)
	var able []string
	for _, n := range nodes {
		if n.Writes(master) {
			able = append(able, n.ID)
		}
	}
	return ShouldKeep(able, sku) == a.cfg.Store.Node
}

// isOthers reports whether sku is a sale that another node should keep, and so most likely
// does.
func (a *assigner) isOthers(sku string) bool {
	return a.catalog.Known(sku) != nil && !a.isMine(sku, a.last().nodes)
}

// anyWrites reports whether a node that was alive at this node's last heartbeat writes to
// master.
func (a *assigner) anyWrites(master string) bool {
	return slices.ContainsFunc(a.last().nodes, func(n store.Node) bool { return n.Writes(master) })
}

// yields reports whether this node must not take a SKU although its lock is free in this
// Redis. After a failover two Redis masters may be in use, each with a lock of its own.
// The keepers of both would fence each other off in turn. Therefore a node at the old
// master leaves the SKU to its latest keeper, if that node is alive and writes to the master.
func (a *assigner) yields(ctx context.Context, sku string) bool {
	sale := a.catalog.Known(sku)
	if sale == nil || !sale.HasGate() || sale.Keeper == a.cfg.Store.Node {
		return false
	}
	master, _ := a.health.master(sku)
	if !slices.ContainsFunc(a.last().nodes, func(n store.Node) bool { return n.ID == sale.Keeper && n.Writes(master) }) {
		return false
	}
	summaries, err := a.cfg.Gate.Summaries(ctx, sku)
	if err != nil || !summaries[0].Exists {
		return false
	}
	g := summaries[0]
	return !g.Promoted && (g.Epoch < sale.Epoch || sale.Mode == orders.ModeChanging && !g.Stale)
}

// take becomes the keeper of sku: it acquires the lock, and then raises the fence in the
// database. Only then does anything else happen. A database that hangs must hold up
// neither the SKUs that come after this one nor the node's end.
func (a *assigner) take(ctx context.Context, sku string) error {
	held, err := a.cfg.Locks.TryAcquire(ctx, lockKey(sku))
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(held.Context(), a.cfg.Keeper.Lease/2)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	sale, err := a.cfg.Store.TakeOver(within, sku)
	if err != nil {
		return errors.Join(err, held.Release(context.Background()))
	}
	a.keepers.Count.TakenOver.Add(1)
	a.cfg.Log.Info("keeper started", "sku", sku, "fence", sale.Fence)
	a.pool.add(&slot{Keeper: keeper.New(sale, a.keepers), sku: sku, held: held, stopped: make(chan struct{})})
	return nil
}

// releaseStalled releases the SKUs whose keepers make no progress. It does not wait for
// the stores, and returns no error. It also removes this node's name as the latest keeper,
// so that the other nodes do not leave the SKU to this node (see yields).
func (a *assigner) releaseStalled(context.Context) error {
	stalled := a.pool.stalled()
	a.releasing.Go(func() {
		a.each(stalled, func(s *slot) {
			ctx, cancel := context.WithTimeout(context.Background(), a.cfg.Keeper.Lease/5)
			defer cancel()
			if err := a.cfg.Store.Vacate(ctx, s.sku, s.Fence()); err != nil {
				a.cfg.Log.Debug("keeper's name not removed", "sku", s.sku, "error", err)
			}
			a.pool.release(s)
		})
	})
	return nil
}

// leave removes this node's heartbeat and hands over all its SKUs. No turn may begin any
// more.
func (a *assigner) leave() {
	a.releasing.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := a.cfg.Store.Leave(ctx, a.cfg.Store.Node); err != nil {
		a.cfg.Log.Debug("heartbeat not removed", "error", err)
	}
	a.handOver(slices.Collect(maps.Values(a.pool.all())), a.cfg.Keeper.Lease/10)
}

// handOver drops several slots. A pass that is under way may end first, within timeout.
func (a *assigner) handOver(slots []*slot, timeout time.Duration) {
	a.each(slots, func(s *slot) { a.pool.drop(s, timeout, 0) })
}

// each does one thing with several slots, a few at a time, and then has the
// nodes look for SKUs that nobody keeps.
func (a *assigner) each(slots []*slot, do func(*slot)) {
	if len(slots) == 0 {
		return
	}
	var g errgroup.Group
	g.SetLimit(Workers)
	for _, s := range slots {
		g.Go(func() error { do(s); return nil })
	}
	_ = g.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	a.bus.hint(ctx, "")
}

// ShouldKeep returns the node with the highest score for sku.
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
