package keeper

import (
	"context"

	"flashsale/inventory"
	"flashsale/orders/store"
)

// Catching up ends when fewer than fewChanges changes are left, which are read while
// the gate is shut, or after catchUps tries: a busy sale never comes to none.
const (
	fewChanges = 1000
	catchUps   = 3
)

// stage reads the orders of the database and stages them at the gate. The gate continues to
// sell, so stage drains the queue after each page.
func (k *Keeper) stage(ctx context.Context, d *inventory.Draft) (*store.Snapshot, error) {
	c := store.NewSnapshot(k.sku)
	c.Step = k.progress
	behind := false // a single page has no time to fall behind
	for {
		page, more, err := k.store.ReadPage(ctx, c)
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
		changes, err := k.store.CatchUp(ctx, c)
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
	return c, nil
}
