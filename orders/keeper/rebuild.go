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
// example because the old gate has changed since this keeper shut it, the new epoch is wasted,
// and the next pass starts over.
func (k *Keeper) rebuild(ctx context.Context, sale *orders.Sale) error {
	k.attempt++
	d := &inventory.Draft{SKU: k.sku, Fence: k.fence, Attempt: k.attempt}
	newGate, opened, err := k.rebuildOnce(ctx, d, sale)
	if opened {
		k.reset(newGate)
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
// drains the queue, begins a new epoch, stages the changes, and opens the new
// gate. All steps that take longer for a larger sale come before the gate is shut.
func (k *Keeper) rebuildOnce(ctx context.Context, d *inventory.Draft, sale *orders.Sale) (newGate inventory.View, opened bool, err error) {
	snap, err := k.stage(ctx, d)
	if err != nil {
		return newGate, false, err
	}
	summaries, err := k.gate.Summaries(ctx, k.sku)
	if err != nil {
		return newGate, false, err
	}
	oldGate := summaries[0]
	// The gate's scripts compare no fences. Without this check, a keeper that was replaced
	// would shut the gate of its successor, which would have to rebuild it.
	if sums, err := k.store.Sums(ctx, k.sku); err != nil || sums.Fence != k.fence {
		return newGate, false, cmp.Or(err, orders.ErrFenced)
	}
	if err := k.gate.BeginRebuild(ctx, k.sku, oldGate.Epoch); err != nil {
		return newGate, false, err
	}
	k.progress()
	for empty := false; !empty; {
		if empty, err = k.drain(ctx); err != nil {
			return newGate, false, err
		}
	}
	data, err := k.store.BeginEpoch(ctx, snap, sale, k.fence, oldGate.Epoch)
	if err != nil {
		return newGate, false, err
	}
	k.progress()
	if data.Direct {
		k.counters.DirectEnded.Add(1)
		k.log.Info("direct mode ended: the sale continues when its new gate is built", "sku", k.sku)
	}
	if err := k.gate.Stage(ctx, d, data.Changes); err != nil {
		return newGate, false, err
	}
	opened, err = k.gate.Install(ctx, d, oldGate.Epoch, data.Gate)
	if opened {
		k.counters.Rebuilt.Add(1)
		k.log.Info("gate built from MySQL", "sku", k.sku, "epoch", data.Gate.Epoch, "fence", k.fence, "existed", oldGate.Exists,
			"available_before", oldGate.Available, "available", data.Gate.Available, "holds", data.Gate.Holds)
	}
	return data.Gate, opened, err
}
