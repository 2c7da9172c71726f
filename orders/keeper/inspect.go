package keeper

import (
	"context"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
)

// correctGate copies changed terms to the gate. It rebuilds the gate if the gate is missing, shut
// or stale, if its epoch differs from the database's, or if a rebuild is announced or
// requested. It deletes the gate of a sale that is over.
func (k *Keeper) correctGate(ctx context.Context) error {
	sale, err := k.store.Sale(ctx, k.sku)
	if err != nil || sale.Mode == orders.ModeOver {
		return err
	}
	summaries, err := k.gate.Summaries(ctx, k.sku)
	if err != nil {
		return err
	}
	g, over := summaries[0], k.todo&DeleteGate != 0
	if over && !g.Exists {
		open, err := k.store.HasOpenOrders(k.store.DB.WithContext(ctx), k.sku)
		if err != nil {
			return err
		}
		if !open {
			return k.deleteGate(ctx, g)
		}
		over = false // only a new gate returns the units of orders that were taken back
	}
	sells := g.Open && !g.Stale && g.Epoch == sale.Epoch
	if sells && !g.Terms.Equal(sale.Terms()) {
		if err := k.gate.SetTerms(ctx, k.sku, g.Epoch, sale.Terms()); err != nil {
			return err
		}
	}
	switch {
	case !sells || sale.Mode != orders.ModeGate || k.todo&RebuildGate != 0:
		if sale.Mode != orders.ModeDirect && sale.Epoch > 0 { // otherwise no node relies on a gate (see Store.BeginEpoch)
			if now, err := k.announce(ctx, k.sku, sale.Epoch); err != nil || !now {
				return err
			}
		}
		return k.rebuild(ctx, sale)
	case over:
		return k.deleteGate(ctx, g)
	}
	return nil
}

// A keeper deletes the gate of a sale that is over. From then on MySQL answers for the sale,
// and a later PUT of the sale builds a new gate. The keeper deletes the gate first and then
// marks the sale over. If it dies in between, the next keeper finds no gate and marks the sale
// over.

// OverAfter is the time from the last possible expiry of an order until its sale is over.
// During that time operators often prolong the sale or look at it.
const OverAfter = time.Minute

// deleteGate deletes the gate and marks the sale over, unless an order of it is open.
func (k *Keeper) deleteGate(ctx context.Context, g inventory.Summary) error {
	open, err := k.store.HasOpenOrders(k.store.DB.WithContext(ctx), k.sku)
	if err != nil || open {
		return err
	}
	gone, err := k.gate.DeleteSale(ctx, k.sku, g.Epoch)
	if err != nil || !gone {
		return err
	}
	over, err := k.store.MarkOver(ctx, k.sku, k.fence)
	if over {
		k.log.Info("sale is over: gate deleted from Redis", "sku", k.sku)
	}
	return err
}
