package orders

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/orders/lock"
)

// Who keeps what: each SKU has one node among those alive that should keep it
// (rendezvous hashing: all agree without talking, and a node that comes or
// goes moves no more SKUs than its share). The lock decides who does. A SKU
// whose lock stays free is taken by anybody.

// assignEvery is how often a node looks for locks that are free.
func assignEvery(lease time.Duration) time.Duration { return lease / 20 }

// beatEvery is how often a node says that it is there; oftener with a short
// lease, or the others would take it for dead between two beats.
const beatEvery = time.Second

// assign runs until ctx ends.
func (ks *Keepers) assign(ctx context.Context) {
	tick := time.NewTicker(assignEvery(ks.cfg.Lease))
	defer tick.Stop()
	ks.beat(ctx)
	free := map[string]time.Time{} // since when this node has seen a lock free
	for {
		free = ks.assignOnce(ctx, free)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-ks.reassign:
			// A node came or went, or a sale is new: what this one knows is old.
			_ = ks.catalog.refresh(ctx)
			ks.beat(ctx)
		}
	}
}

// heartbeat says that the node is there until ctx ends, however long taking
// over takes.
func (ks *Keepers) heartbeat(ctx context.Context) {
	tick := time.NewTicker(min(beatEvery, ks.cfg.Lease/4))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			ks.beat(ctx)
		}
	}
}

// beat writes this node's heartbeat and learns who else is alive. While the
// database is away, the last answer stands.
func (ks *Keepers) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, beatEvery)
	defer cancel()
	nodes, err := ks.store.Beat(ctx, ks.node, !ks.link.isLost(), ks.cfg.Lease)
	if err != nil {
		return
	}
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if !slices.Equal(ks.nodes, nodes) {
		ks.nodes = nodes
		clear(ks.moved)
	}
}

func (ks *Keepers) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := ks.store.Leave(ctx, ks.node); err != nil {
		ks.log.Debug("leave", "error", err)
	}
}

// assignOnce gives up what another node should keep, and takes what is free:
// at once where it is this node's, else if nobody else has for a while. It
// returns what it found free and did not get, and since when.
func (ks *Keepers) assignOnce(ctx context.Context, freeBefore map[string]time.Time) map[string]time.Time {
	sales, _, err := ks.catalog.sales(ctx)
	if err != nil {
		return freeBefore
	}
	move, others := ks.plan(sales)
	ks.giveUpAll(move)
	if len(others) == 0 {
		return nil
	}
	keys := make([]string, len(others))
	for i := range others {
		keys[i] = lockKey(others[i].sku)
	}
	left, err := ks.locks.Remaining(ctx, keys...)
	if err != nil {
		return freeBefore
	}
	var g errgroup.Group
	g.SetLimit(ks.cfg.Workers)
	free := map[string]time.Time{}
	for i, c := range others {
		if left[i] > 0 {
			continue
		}
		since, before := freeBefore[c.sku]
		if !before {
			since = time.Now()
		}
		free[c.sku] = since
		if time.Since(since) >= c.patience {
			g.Go(func() error { ks.tryTake(ctx, c.sku); return nil })
		}
	}
	_ = g.Wait()
	return free
}

// A candidate is a SKU that this node does not keep, and for how long its lock
// must have been free before this node takes it.
type candidate struct {
	sku      string
	patience time.Duration
}

// plan tells which posts to give up, and which SKUs to look at.
func (ks *Keepers) plan(sales []Sale) (move []*post, others []candidate) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	now, round := time.Now(), assignEvery(ks.cfg.Lease)
	over := maps.Clone(ks.posts) // less all that is still of interest
	for _, sale := range sales {
		delete(over, sale.SKU)
		mine := shouldKeep(ks.nodes, sale.SKU) == ks.node
		moved := now.Sub(ks.moved[sale.SKU]) < ks.cfg.Lease
		p := ks.posts[sale.SKU]
		switch {
		case p == nil && now.Before(ks.avoid[sale.SKU]):
		case p == nil && sale.Mode == modeDirect && ks.link.isLost(): // sold well as it is, until Redis is back for good
		case p == nil && mine:
			others = append(others, candidate{sale.SKU, 0})
		case p == nil && moved: // the one that it was moved to may be busy with others
			others = append(others, candidate{sale.SKU, 3 * round})
		case p == nil: // after most of a round of everybody's, the one whose it is has looked
			others = append(others, candidate{sale.SKU, round * 3 / 4})
		case !mine && len(ks.nodes) > 0 && !moved:
			// Not twice within a lease: the other may have died meanwhile.
			ks.moved[sale.SKU] = now
			move = append(move, p)
		}
	}
	return slices.AppendSeq(move, maps.Values(over)), others
}

func (ks *Keepers) tryTake(ctx context.Context, sku string) {
	err := ks.take(ctx, sku)
	if err != nil && !errors.Is(err, lock.ErrHeld) && ctx.Err() == nil {
		ks.log.Warn("take over", "sku", sku, "error", err)
	}
}

// take becomes the keeper of sku: the lock, then the fence from the database,
// then the gate is shown the fence. Only then does anything else happen.
func (ks *Keepers) take(ctx context.Context, sku string) error {
	held, err := ks.locks.TryAcquire(ctx, lockKey(sku))
	if err != nil {
		return err
	}
	sale, err := ks.claim(ctx, held, sku)
	if err != nil {
		return errors.Join(err, held.Release(context.Background()))
	}
	p := &post{stopped: make(chan struct{})}
	p.keeper = keeper{
		sku: sku, held: held, fence: sale.Fence, store: ks.store, together: ks.convoy, gate: ks.gate,
		batch: ks.cfg.Batch, log: ks.log, tell: ks.tell, count: &ks.count, committed: ks.committed,
	}
	p.ended.Store(true)
	p.inspect.Store(true)
	ks.count.TakenOver.Add(1)
	ks.log.Info("keeping", "sku", sku, "fence", sale.Fence)

	ks.mu.Lock()
	ks.posts[sku] = p
	ks.enqueue(p)
	ks.mu.Unlock()
	context.AfterFunc(held.Context(), func() {
		if cause := context.Cause(held.Context()); errors.Is(cause, lock.ErrLost) {
			ks.count.Lost.Add(1)
			ks.log.Warn("lost the lease", "sku", sku, "cause", cause)
		}
		ks.giveUp(p, 0)
	})
	return nil
}

// claim raises the fence in both stores. A database that hangs must hold up
// neither the SKUs that come after this one nor the node's end.
func (ks *Keepers) claim(ctx context.Context, held *lock.Lock, sku string) (*Sale, error) {
	within, cancel := context.WithTimeout(held.Context(), ks.cfg.Lease)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	sale, err := ks.store.TakeOver(within, sku)
	if err != nil {
		return nil, err
	}
	return sale, ks.gate.Claim(within, sku, sale.Fence)
}

// shouldKeep is the node with the highest score for sku.
func shouldKeep(nodes []string, sku string) (best string) {
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
