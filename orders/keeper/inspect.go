package keeper

import (
	"context"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
)

// inspect brings changed terms to the gate. It rebuilds the gate if the gate is missing,
// shut or stale, if its epoch is not that of the database, or if its replacement is
// announced.
func (k *Keeper) inspect(ctx context.Context) error {
	sale, err := k.store.Sale(ctx, k.sku)
	if err != nil || sale.Mode == orders.ModeOver {
		return err
	}
	summaries, err := k.gate.Summaries(ctx, k.sku)
	if err != nil {
		return err
	}
	g, over := summaries[0], k.todo&Forget != 0
	if over && !g.Exists {
		return k.finishSale(ctx, g)
	}
	sells := g.Open && !g.Stale && g.Epoch == sale.Epoch
	if sells && !g.Terms.Equal(sale.Terms()) {
		if err := k.gate.SetTerms(ctx, k.sku, g.Epoch, sale.Terms()); err != nil {
			return err
		}
	}
	switch {
	case !sells || sale.Mode != orders.ModeGate || k.todo&Rebuild != 0:
		if sale.Mode != orders.ModeDirect && sale.Epoch > 0 { // see Store.Recount
			if now, err := k.announce(ctx, k.sku, sale.Epoch); err != nil || !now {
				return err
			}
		}
		return k.rebuild(ctx, sale)
	case over:
		return k.finishSale(ctx, g)
	}
	return nil
}

// A sale that is over has no gate: its keeper has Redis forget it, and MySQL
// answers for it from then on. A later PUT of the sale has the gate built again.
// Redis comes first. Whoever dies in between leaves a sale without a gate, which
// the next keeper finishes.

// FinishAfter is how long after the last order may have expired a keeper
// finishes a sale: it is often prolonged, or looked at, when it has just ended.
const FinishAfter = time.Minute

// finishSale has Redis forget the sale, unless an order of it is open.
func (k *Keeper) finishSale(ctx context.Context, g inventory.Summary) error {
	open, err := k.store.HasOpenOrders(k.store.DB.WithContext(ctx), k.sku)
	if err != nil || open {
		return err
	}
	gone, err := k.gate.DeleteSale(ctx, k.sku, g.Epoch)
	if err != nil || !gone {
		return err
	}
	finished, err := k.store.Finish(ctx, k.sku, k.fence)
	if finished {
		k.log.Info("sale is over, and Redis has forgotten it", "sku", k.sku)
	}
	return err
}
