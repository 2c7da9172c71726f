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

// An assigner decides which SKUs this node keeps. All nodes choose the same preferred node for
// a SKU, by rendezvous hashing over the live nodes. If a node joins or leaves, only its share
// of the SKUs moves. The lock decides which node keeps the SKU: if the preferred node does not
// acquire a free lock, any other node may.
type assigner struct {
	cfg       Config
	keepers   keeper.Config // configuration of this node's keepers
	catalog   *store.Catalog
	health    *redisHealth
	pool      *pool
	bus       *bus
	owner     *owner
	loop      *Loop
	early     chan struct{}  // requests an assignment before the next tick; buffered
	releasing sync.WaitGroup // counts the calls of releaseStalled that still release locks

	// Only run uses these.
	freeSince    map[string]time.Time // SKU → time since which its lock has been free
	handedOverAt map[string]time.Time // SKU → time at which this node handed it over; valid for plannedFor
	plannedFor   []store.Node

	mu       sync.Mutex
	lastBeat heartbeat
	missed   int   // number of heartbeats that have failed since lastBeat
	missedBy error // error of the last of them
}

// A heartbeat is a write of this node's row, and the live nodes that it returned.
type heartbeat struct {
	at    time.Time    // zero for never
	nodes []store.Node // includes this node
}

// run assigns SKUs until ctx ends.
func (a *assigner) run(ctx context.Context) {
	tick := time.NewTicker(a.cfg.Keeper.assignEvery())
	defer tick.Stop()
	_ = a.beat(ctx) // assign needs the live nodes
	_ = a.owner.renew(ctx)
	for {
		a.loop.Record(ctx, a.assign(ctx))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-a.early:
			// A node has joined or left, or a sale is new.
			_ = a.catalog.Refresh(ctx)
			_ = a.beat(ctx)
		}
	}
}

func (a *assigner) assignSoon() { signal(a.early) }

// beat writes this node's heartbeat and reads the live nodes. If that fails, the previous
// nodes stay.
func (a *assigner) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxBeatEvery)
	defer cancel()
	nodes, err := a.cfg.Store.Heartbeat(ctx, a.cfg.Store.Node, a.health.downMasters(), a.cfg.Keeper.Lease)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.missed, a.missedBy = a.missed+1, err; err == nil {
		a.lastBeat, a.missed = heartbeat{at: time.Now(), nodes: nodes}, 0
	}
	return err
}

// missedBeats is the number of consecutive failed heartbeats after which a node is not ready. They are counted, because time would also pass while the process is stopped.
const missedBeats = 3

// checkBeat returns the error of the last heartbeat, if the latest ones have failed.
func (a *assigner) checkBeat() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.missed < missedBeats {
		return nil
	}
	return a.missedBy
}

func (a *assigner) last() heartbeat {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lastBeat
}

// wrote returns the time at which this node last wrote to both stores of sku, or the zero
// time.
func (a *assigner) wrote(sku string) time.Time {
	_, m := a.health.master(sku)
	if beat := a.last().at; beat.Before(m.wrote) {
		return beat
	}
	return m.wrote
}

// assign hands over the SKUs that another node should keep, and takes SKUs whose locks are
// free. The lock of a SKU that another node should keep must have been free for a while. A node
// whose database has not owned Redis yet takes no SKU.
func (a *assigner) assign(ctx context.Context) error {
	if !a.owner.owns.Load() {
		return nil
	}
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
		keys[i] = a.lockKey(candidates[i].sku)
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
					a.cfg.Log.Warn("takeover failed: the SKU has no keeper until a node succeeds", "sku", c.sku, "error", err)
				}
				return nil
			})
		}
	}
	_ = g.Wait()
	a.freeSince = free
	return nil
}

func (a *assigner) lockKey(sku string) string { return a.cfg.Prefix + "lock:{" + sku + "}" }

// handOverAgain is the number of leases after which a node again hands over a SKU that it has
// had to take back. When a node joins or leaves, it does so at once.
const handOverAgain = 10

// A candidate is a SKU that this node may take after its lock has been free for freeFor.
type candidate struct {
	sku     string
	freeFor time.Duration
}

// plan returns the slots to hand over and the SKUs that this node may take.
func (a *assigner) plan(sales []orders.Sale) (move []*slot, candidates []candidate) {
	nodes, now, term, turn := a.last().nodes, time.Now(), a.cfg.Keeper.Lease, a.cfg.Keeper.assignEvery()
	if !slices.EqualFunc(a.plannedFor, nodes, func(a, b store.Node) bool { return a.ID == b.ID && a.Unwritable == b.Unwritable }) {
		a.plannedFor = nodes
		clear(a.handedOverAt)
	}
	over := a.pool.all() // after the loop, the slots whose sales are over
	for _, sale := range sales {
		if sale.Mode == orders.ModeOver {
			continue
		}
		sku, s := sale.SKU, over[sale.SKU]
		delete(over, sku)
		mine, sinceHandOver := a.isMine(sku, nodes), now.Sub(a.handedOverAt[sku])
		switch {
		case s == nil && a.pool.backsOff(sku):
		case s == nil && now.Sub(a.wrote(sku)) > term: // this node does not reach both stores
		case s == nil && sale.Mode == orders.ModeDirect && a.health.gateUntrusted(sku): // direct mode continues until Redis is up
		case s == nil && mine:
			candidates = append(candidates, candidate{sku, 0})
		case s == nil && sinceHandOver < term: // the preferred node may be busy with other SKUs
			candidates = append(candidates, candidate{sku, 3 * turn})
		case s == nil: // by then the preferred node has most likely looked for free locks
			candidates = append(candidates, candidate{sku, turn * 3 / 4})
		case !mine && len(nodes) > 0 && sinceHandOver > handOverAgain*term:
			// If this node keeps the SKU again, the preferred node was not able to take it.
			a.handedOverAt[sku] = now
			move = append(move, s)
		}
	}
	return slices.AppendSeq(move, maps.Values(over)), candidates
}

// isMine reports whether this node is the preferred node of sku: it has the highest score
// among the live nodes that write to the SKU's Redis master.
func (a *assigner) isMine(sku string, nodes []store.Node) bool {
	master, _ := a.health.master(sku)
	var able []string
	for _, n := range nodes {
		if n.CanWrite(master) {
			able = append(able, n.ID)
		}
	}
	return ShouldKeep(able, sku) == a.cfg.Store.Node
}

// isOthers reports whether another node is the preferred node of sku, and most likely keeps it.
func (a *assigner) isOthers(sku string) bool {
	return a.catalog.Cached(sku) != nil && !a.isMine(sku, a.last().nodes)
}

// believes reports whether a message is from a keeper of this node's database: the fence is that
// of the sale's latest keeper, and that node is alive. In a copy of a database the fences are the
// same, but no heartbeat of the other database's nodes is recent. A message that is not believed
// counts as lost, so its orders are looked up.
func (a *assigner) believes(m *message) bool {
	sale, beat := a.catalog.Cached(m.SKU), a.last()
	return sale != nil && sale.Fence == m.Fence && m.Keeper != a.cfg.Store.Node && !a.catalog.DoubtsGates() &&
		time.Since(beat.at) < a.cfg.Keeper.Lease && slices.ContainsFunc(beat.nodes, func(n store.Node) bool { return n.ID == m.Keeper })
}

// leads reports whether this node is the first of the live nodes.
func (a *assigner) leads() bool {
	nodes := a.last().nodes
	return len(nodes) > 0 && nodes[0].ID == a.cfg.Store.Node
}

// anyWrites reports whether any live node writes to master, as of this node's last heartbeat.
func (a *assigner) anyWrites(master string) bool {
	return slices.ContainsFunc(a.last().nodes, func(n store.Node) bool { return n.CanWrite(master) })
}

// yields reports whether this node must not take sku, although its lock is free. After a
// failover, some nodes may still use the old Redis master, which has its own lock. Keepers at
// both masters would fence each other off repeatedly. Therefore a node at the old master does
// not take the SKU while its latest keeper is alive and writes to that keeper's master.
func (a *assigner) yields(ctx context.Context, sku string) bool {
	sale := a.catalog.Cached(sku)
	if sale == nil || !sale.HasGate() || sale.Keeper == a.cfg.Store.Node {
		return false
	}
	master, _ := a.health.master(sku)
	if !slices.ContainsFunc(a.last().nodes, func(n store.Node) bool { return n.ID == sale.Keeper && n.CanWrite(master) }) {
		return false
	}
	summaries, err := a.cfg.Gate.Summaries(ctx, sku)
	if err != nil || !summaries[0].Exists {
		return false
	}
	g := summaries[0]
	return !g.Promoted && (g.Epoch < sale.Epoch || sale.Mode == orders.ModeChanging && !g.Stale)
}

// take makes this node the keeper of sku. It acquires the lock and then raises the fence in
// the database. It waits at most half a lease for the database, because a database that hangs
// must delay neither other SKUs nor the stop of the node.
func (a *assigner) take(ctx context.Context, sku string) error {
	lock, err := a.cfg.Locks.TryAcquire(ctx, a.lockKey(sku))
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(lock.Context(), a.cfg.Keeper.Lease/2)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	sale, err := a.cfg.Store.TakeOver(within, sku)
	if err != nil {
		return errors.Join(err, lock.Release(context.Background()))
	}
	a.keepers.Counters.TakenOver.Add(1)
	a.cfg.Log.Info("keeper started on this node", "sku", sku, "fence", sale.Fence)
	cfg := a.keepers
	cfg.Notify = func(ctx context.Context, decisions []orders.Decision) { a.bus.notify(ctx, sku, sale.Fence, decisions) }
	a.pool.add(&slot{Keeper: keeper.New(sale, cfg), sku: sku, lock: lock, stopped: make(chan struct{})})
	return nil
}

// releaseStalled gives up the SKUs whose keepers make no progress. It returns at once, and
// releases the locks in the background. It also removes this node's name from the sale, so
// that other nodes do not leave the SKU to this node (see yields).
func (a *assigner) releaseStalled(context.Context) error {
	stalled := a.pool.stalled()
	a.releasing.Go(func() {
		a.each(stalled, func(s *slot) {
			ctx, cancel := context.WithTimeout(context.Background(), a.cfg.Keeper.Lease/5)
			defer cancel()
			if err := a.cfg.Store.ClearKeeper(ctx, s.sku, s.Fence()); err != nil {
				a.cfg.Log.Debug("removal of this node's name from the sale failed: the takeover of the SKU by another node may be delayed", "sku", s.sku, "error", err)
			}
			a.pool.release(s)
		})
	})
	return nil
}

// leave removes this node's heartbeat and hands over all its SKUs. No loop of the assigner may
// run any more.
func (a *assigner) leave() {
	a.releasing.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := a.cfg.Store.RemoveNode(ctx, a.cfg.Store.Node); err != nil {
		a.cfg.Log.Debug("removal of this node's heartbeat failed: other nodes may take over its SKUs up to a lease later", "error", err)
	}
	a.handOver(slices.Collect(maps.Values(a.pool.all())), a.cfg.Keeper.Lease/10)
}

// handOver drops several slots. It waits for running passes until timeout.
func (a *assigner) handOver(slots []*slot, timeout time.Duration) {
	a.each(slots, func(s *slot) { a.pool.drop(s, timeout, 0) })
}

// each calls do for several slots, a few at a time. It then publishes the hint that locks are
// free.
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

// mix distributes the bits of an FNV hash (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
