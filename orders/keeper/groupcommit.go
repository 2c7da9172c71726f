package keeper

import (
	"context"
	"time"

	"flashsale/inventory/coalesce"
	"flashsale/orders"
	"flashsale/orders/store"
)

// A GroupCommit has keepers of one node share transactions. With many SKUs, each
// has but a few orders at a time, and most of what a transaction costs is not its
// rows: row lock, commit, fsync, round trips. So whoever comes while one is under way
// waits for the next, and goes with all who wait. A SKU that is busy alone goes alone, at
// once. With two at a time, orders of 12 sales took a quarter more of MySQL's time.
//
// Members are independent: a batch that was left out, or whose group failed, is
// committed again alone. Commits are idempotent.
type GroupCommit struct {
	*coalesce.Group[store.SaleOrders, []orders.Decision]
	store *store.Store
	alone chan struct{} // those who have to commit by themselves, after a group
	count *Counters
}

// A member is a batch in a group.
type member = coalesce.Caller[store.SaleOrders, []orders.Decision]

// NewGroupCommit bounds a transaction to so many orders, and how many keepers commit alone
// at once after their group has failed. A transaction that takes longer than timeout no
// longer holds up the SKUs behind it, and one that is shared ends after twice that: its
// members must have time to go by themselves within a lease.
func NewGroupCommit(in *store.Store, maxOrders, alone int, timeout time.Duration, count *Counters) *GroupCommit {
	g := &GroupCommit{store: in, alone: make(chan struct{}, alone), count: count}
	g.Group = coalesce.New(coalesce.Config[store.SaleOrders, []orders.Decision]{
		Batch: maxOrders, Size: func(b store.SaleOrders) int { return len(b.Orders) },
		Patience: timeout, Timeout: 2 * timeout, Call: g.call,
	})
	return g
}

// commit is Store.Commit, maybe in company. A keeper that may no longer go on does
// not wait for the transaction's end: its fence tells what becomes of it.
func (g *GroupCommit) commit(ctx context.Context, b store.SaleOrders) ([]orders.Decision, error) {
	decisions, err := g.Do(ctx, "", b)
	if err == nil && decisions == nil {
		select {
		case g.alone <- struct{}{}:
			defer func() { <-g.alone }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return g.store.Commit(ctx, b.SKU, b.Fence, b.Orders)
	}
	return decisions, err
}

// call makes one transaction of a group. It ends when any of its keepers may no
// longer go on. Whoever gets no decisions goes by itself.
func (g *GroupCommit) call(ctx context.Context, _ string, group []*member) {
	if len(group) == 1 { // for as long as its keeper may
		m := group[0]
		m.Answer, m.Err = g.store.Commit(m.Ctx, m.Q.SKU, m.Q.Fence, m.Q.Orders)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := make([]store.SaleOrders, len(group))
	for i, m := range group {
		defer context.AfterFunc(m.Ctx, cancel)()
		batches[i] = m.Q
	}
	decisions, err := g.store.CommitTogether(ctx, batches)
	if err != nil {
		return
	}
	for i, m := range group {
		m.Answer = decisions[i]
	}
	g.count.Together.Add(1)
}
