package keeper

import (
	"context"
	"time"

	"flashsale/inventory"
)

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
