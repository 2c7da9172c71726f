package keeper

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
)

// rebuild builds the gate from the database and issues a new epoch. If nodes relied on the old
// gate, the caller has announced the end of its epoch. If the new gate does not open, for
// example because the old gate has changed since it was shut, the new epoch is wasted, and the
// next pass starts over.
func (k *Keeper) rebuild(ctx context.Context, sale *orders.Sale) error {
	k.attempt++
	d := &inventory.Draft{SKU: k.sku, Fence: k.fence, Attempt: k.attempt}
	stock, opened, err := k.rebuildOnce(ctx, d, sale)
	if opened {
		k.reset(stock)
		return nil
	}
	// If Redis is down, too, the draft expires.
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	_ = k.gate.Discard(within, d)
	return cmp.Or(err, fmt.Errorf("rebuild the gate of %s: the gate changed during the rebuild", k.sku))
}

// discardTimeout is short, because the keeper may have lost its lock already.
const discardTimeout = 500 * time.Millisecond

// rebuildOnce stages the orders of the database at the gate (stage.go). It then shuts the gate,
// drains the queue, recounts the sale under a new epoch, stages the changes, and opens the new
// gate. All steps that take longer for a larger sale come before the gate is shut.
func (k *Keeper) rebuildOnce(ctx context.Context, d *inventory.Draft, sale *orders.Sale) (stock inventory.View, opened bool, err error) {
	c, err := k.stage(ctx, d)
	if err != nil {
		return stock, false, err
	}
	summaries, err := k.gate.Summaries(ctx, k.sku)
	if err != nil {
		return stock, false, err
	}
	was := summaries[0]
	// The gate's scripts compare no fences. Without this check, a keeper that was replaced
	// would shut the gate of its successor, which would have to rebuild it.
	if sums, err := k.store.Sums(ctx, k.sku); err != nil || sums.Fence != k.fence {
		return stock, false, cmp.Or(err, orders.ErrFenced)
	}
	if err := k.gate.BeginRebuild(ctx, k.sku, was.Epoch); err != nil {
		return stock, false, err
	}
	k.progress()
	for empty := false; !empty; {
		if empty, err = k.drain(ctx); err != nil {
			return stock, false, err
		}
	}
	r, err := k.store.Recount(ctx, c, sale, k.fence, was.Epoch)
	if err != nil {
		return stock, false, err
	}
	k.progress()
	if r.Direct {
		k.count.DirectLeft.Add(1)
		k.log.Info("direct mode ended: the sale continues when its new gate is built", "sku", k.sku)
	}
	if err := k.gate.Stage(ctx, d, r.Changes); err != nil {
		return stock, false, err
	}
	opened, err = k.gate.Install(ctx, d, was.Epoch, r.Gate)
	if opened {
		k.count.Rebuilt.Add(1)
		k.log.Info("gate built from MySQL", "sku", k.sku, "epoch", r.Gate.Epoch, "fence", k.fence, "existed", was.Exists,
			"available_before", was.Available, "available", r.Gate.Available, "holds", r.Gate.Holds)
	}
	return r.Gate, opened, err
}
