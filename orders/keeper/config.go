package keeper

import (
	"context"
	"log/slog"

	"flashsale/orders"
	"flashsale/orders/store"
)

// Config configures a Keeper. All fields are required.
type Config struct {
	Store      *store.Store
	Gate       Gate
	Commits    *GroupCommit // shared by the keepers of a node
	MaxBatch   int          // maximum number of orders in a transaction; a gate's script takes at most 500 ids
	ScanPasses int64        // number of passes with ContinueScan that a scan should take, at least 1
	Log        *slog.Logger
	Counters   *Counters // shared by the keepers of a node

	// Announce stores the announcement that the epoch of sku ends, unless it is stored
	// already. It reports whether the keeper may end the epoch now (see
	// store.Catalog.UntilSwitch). If not, it schedules a pass with CorrectGate for the time at
	// which the keeper may.
	Announce func(ctx context.Context, sku string, epoch int64) (now bool, err error)
	// Notify receives the decisions on orders, and OnCommit receives each commit. Neither may
	// block.
	Notify   func(ctx context.Context, decisions []orders.Decision)
	OnCommit func(*Commit)
}

// New returns the keeper of a sale that this node has just taken over. New does not acquire
// the SKU's lock, and it starts nothing.
func New(sale *orders.Sale, cfg Config) *Keeper {
	k := &Keeper{
		sku: sale.SKU, fence: sale.Fence, store: cfg.Store, gate: cfg.Gate, commits: cfg.Commits,
		batch: cfg.MaxBatch, scanPasses: cfg.ScanPasses, log: cfg.Log, announce: cfg.Announce, notify: cfg.Notify, committed: cfg.OnCommit, counters: cfg.Counters,
	}
	k.progress()
	return k
}
