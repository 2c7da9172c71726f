package keeper

import (
	"context"

	"flashsale/inventory"
	"flashsale/orders/store"
)

// After the last page, stage reads and stages the changes since, until fewer than fewChanges
// are left or after catchUps attempts. In a busy sale, some changes are always left. They are
// read while the gate is shut.
const (
	fewChanges = 1000
	catchUps   = 3
)

// stage stages the orders of the database at the gate. After each page it drains the queue,
// because the gate continues to sell.
func (k *Keeper) stage(ctx context.Context, d *inventory.Draft) (*store.Snapshot, error) {
	snap := store.NewSnapshot(k.sku)
	snap.Step = k.progress
	behind := false // stays false for a single page, since few orders change while it is read
	for {
		page, more, err := k.store.ReadPage(ctx, snap)
		if err != nil {
			return nil, err
		}
		if err := k.gate.Stage(ctx, d, page); err != nil {
			return nil, err
		}
		k.progress()
		if !more {
			break
		}
		behind = true
		if _, err := k.drain(ctx); err != nil {
			return nil, err
		}
	}
	for i := 0; behind && i < catchUps; i++ {
		changes, err := k.store.CatchUp(ctx, snap)
		if err != nil {
			return nil, err
		}
		if err := k.gate.Stage(ctx, d, changes); err != nil {
			return nil, err
		}
		k.progress()
		if _, err := k.drain(ctx); err != nil {
			return nil, err
		}
		behind = len(changes.Holds)+len(changes.Ended) >= fewChanges
	}
	return snap, nil
}
