package keeper

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"flashsale/orders"
	"flashsale/orders/store"
)

// Params of a keeper. Store and Gate are required.
type Params struct {
	Store   *store.Store
	Gate    Gate
	Commits *GroupCommit // shared by the keepers of a node. Default: one of its own
	Batch   int          // orders per transaction. Default and at most 500
	Rounds  int64        // passes with ScanPage in which a scan ends. Default 1
	Log     *slog.Logger // default: slog's
	Count   *Counters    // of the node. Default: of this keeper alone

	// Tell hears what became of orders, OnCommit of each transaction. They must not
	// block, and may be nil.
	Tell     func(ctx context.Context, verdicts []orders.Decision)
	OnCommit func(*Commit)
}

// One takes over sku and returns its keeper, which does nothing but what its
// caller has it do. It locks nothing: where there may be another keeper, the
// fence alone decides between them.
func One(ctx context.Context, p Params, sku string) (*Keeper, error) {
	sale, err := p.Store.TakeOver(ctx, sku)
	if err != nil {
		return nil, err
	}
	return New(sale, p), nil
}

// NewKeeper is the keeper of a sale that was just taken over.
func New(sale *orders.Sale, p Params) *Keeper {
	if p.Batch <= 0 || p.Batch > 500 { // the gate's scripts take no more ids at once
		p.Batch = 500
	}
	p.Rounds, p.Log = max(1, p.Rounds), cmp.Or(p.Log, slog.Default())
	if p.Count == nil {
		p.Count = new(Counters)
	}
	if p.Commits == nil {
		p.Commits = NewGroupCommit(p.Store, p.Batch, time.Second, p.Count)
	}
	if p.Tell == nil {
		p.Tell = func(context.Context, []orders.Decision) {}
	}
	if p.OnCommit == nil {
		p.OnCommit = func(*Commit) {}
	}
	k := &Keeper{
		sku: sale.SKU, fence: sale.Fence, direct: sale.Mode == orders.ModeDirect, store: p.Store, gate: p.Gate, commits: p.Commits,
		batch: p.Batch, rounds: p.Rounds, log: p.Log, tell: p.Tell, committed: p.OnCommit, count: p.Count,
	}
	k.progress()
	return k
}
