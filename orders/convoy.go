package orders

import (
	"context"
	"sync"
)

// A convoy has keepers of one node share transactions. With many SKUs, each has
// but a few orders at a time, and what a transaction costs beside its rows (row
// lock, commit, an fsync and the round trips) is most of all it costs. So
// whoever comes while as many are under way as may be waits for the next, and
// goes with all who wait. A SKU that is busy alone goes alone, at once.
//
// Nobody depends on those he goes with: what is left out, or fails, is
// committed once more by itself. To have done it twice is to have done it once.
type convoy struct {
	store *Store
	most  int           // orders of one transaction
	turns chan struct{} // as many as transactions may be under way at once
	count *Counters

	mu      sync.Mutex
	waiting []*traveller
}

// travelling is how many transactions of a convoy are under way at once: one is
// filled while the other is committed.
const travelling = 2

func newConvoy(store *Store, most int, count *Counters) *convoy {
	return &convoy{store: store, most: most, turns: make(chan struct{}, travelling), count: count}
}

// A traveller is a batch that waits for the next transaction.
type traveller struct {
	batch
	ctx      context.Context
	done     chan struct{}
	verdicts []verdict // nil: to be committed by itself
}

// commit is Store.Commit, maybe in company.
func (c *convoy) commit(ctx context.Context, b batch) ([]verdict, error) {
	t := &traveller{batch: b, ctx: ctx, done: make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, t)
	c.mu.Unlock()
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
		// Those who wait, t among them unless somebody has taken it along.
		if group := c.take(); len(group) > 1 || len(group) == 1 && group[0] != t {
			c.carry(group)
		} else if len(group) == 1 {
			close(t.done)
		}
		if c.leave(t) { // those before it were as many as may go: maybe nobody else comes
			close(t.done)
		}
	case <-t.done:
	case <-ctx.Done():
		if c.leave(t) {
			return nil, context.Cause(ctx)
		}
	}
	<-t.done // whoever took it along ends, as its context has
	if t.verdicts != nil {
		return t.verdicts, nil
	}
	return c.store.Commit(ctx, b.sku, b.fence, b.orders)
}

// take returns those who go next.
func (c *convoy) take() (group []*traveller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	orders := 0
	for len(c.waiting) > 0 {
		t := c.waiting[0]
		if orders += len(t.orders); orders > c.most && len(group) > 0 {
			break
		}
		group = append(group, t)
		c.waiting[0], c.waiting = nil, c.waiting[1:]
	}
	return group
}

// leave tells whether t had not been taken along yet, and now will not be.
func (c *convoy) leave(t *traveller) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range c.waiting {
		if w == t {
			c.waiting = append(c.waiting[:i:i], c.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// carry makes one transaction of a group, which ends when any of its keepers may
// no longer go on.
func (c *convoy) carry(group []*traveller) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	batches := make([]batch, len(group))
	for i, t := range group {
		defer context.AfterFunc(t.ctx, cancel)()
		batches[i] = t.batch
	}
	verdicts, err := c.store.CommitTogether(ctx, batches)
	for i, t := range group {
		if err == nil {
			t.verdicts = verdicts[i]
		}
		close(t.done)
	}
	if err == nil {
		c.count.Together.Add(1)
	}
}
