package keeper

import (
	"context"
	"log/slog"

	"flashsale/orders"
	"flashsale/orders/store"
)

// Config of a keeper. All of them are required.
type Config struct {
	Store   *store.Store
	Gate    Gate
	Commits *GroupCommit // shared by the keepers of a node
	Batch   int          // orders per transaction, at most 500: the gate's scripts take no more ids at once
	Rounds  int64        // passes with ScanPage in which a scan ends, at least 1
	Log     *slog.Logger
	Count   *Counters // of the node

	// Announce announces the end of the epoch of sku. If the announcement is already in
	// the database, it changes nothing. It reports whether the epoch may be ended now
	// (store.Catalog.UntilSwitch). If not, it schedules a pass with Inspect for that
	// moment.
	Announce func(ctx context.Context, sku string, epoch int64) (now bool, err error)
	// Tell receives the decisions on orders, and OnCommit each transaction. They must
	// not block.
	Tell     func(ctx context.Context, decisions []orders.Decision)
	OnCommit func(*Commit)
}

// New returns the keeper of a sale that was just taken over. It does nothing by itself
// and acquires no lock. If another keeper exists, only the fence decides between them.
func New(sale *orders.Sale, cfg Config) *Keeper {
	k := &Keeper{
		sku: sale.SKU, fence: sale.Fence, store: cfg.Store, gate: cfg.Gate, commits: cfg.Commits,
		batch: cfg.Batch, rounds: cfg.Rounds, log: cfg.Log, announce: cfg.Announce, tell: cfg.Tell, committed: cfg.OnCommit, count: cfg.Count,
	}
	k.progress()
	return k
}
