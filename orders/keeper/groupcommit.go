package keeper

import (
	"context"
	"time"

	"flashsale/inventory"
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
	verdicts, err := g.Do(ctx, "", b)
	if err == nil && verdicts == nil {
		select {
		case g.alone <- struct{}{}:
			defer func() { <-g.alone }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return g.store.Commit(ctx, b.SKU, b.Fence, b.Orders)
	}
	return verdicts, err
}

// call makes one transaction of a group. It ends when any of its keepers may no
// longer go on. Whoever gets no verdicts goes by itself.
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
	verdicts, err := g.store.CommitTogether(ctx, batches)
	if err != nil {
		return
	}
	for i, m := range group {
		m.Answer = verdicts[i]
	}
	g.count.Together.Add(1)
}

// commitEach carries orders over one by one, when the database refuses
// something in the batch: one bad order must not stop the SKU. Its units go
// back, and its caller hears that nothing was sold.
func (k *Keeper) commitEach(ctx context.Context, batch []inventory.Queued) ([]orders.Decision, error) {
	var verdicts []orders.Decision
	for _, q := range batch {
		one, err := k.store.Commit(ctx, k.sku, k.fence, []inventory.Queued{q})
		if store.IsBadData(err) {
			k.log.Error("order refused by the database", "sku", k.sku, "order", q.OrderID, "error", err)
			one, err = []orders.Decision{{Queued: q, Hold: orders.GiveBack, Refused: orders.Unavailable}}, nil
		}
		if err != nil {
			return nil, err
		}
		verdicts = append(verdicts, one...)
	}
	return verdicts, nil
}
