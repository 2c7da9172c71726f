package variants

import "context"

// Closes an order whatever its status is, and releases its units.
//
// What breaks it: a buyer clicks "cancel" twice, or a cancellation meets the
// expiry. Both update the row and both release the units. The second release puts
// units of another order on sale. Or a payment arrives first, and a paid order is cancelled.
// Reading the status before does not help: both read "pending".
//
// Right: UPDATE ... WHERE status = 'pending_payment', and release only if that
// changed a row.
//
// Seen in mall, updateOrderStatus; magento2 issue 9969; woocommerce issue 22489.
var _ = show(Variant{
	Name:   "unguarded-close",
	Does:   "UPDATE orders SET status = 'cancelled' WHERE id = ?",
	Breaks: "Two clicks close the order twice, and its units are released twice.",
	Source: "mall; magento2 9969; woocommerce 22489",
	Caught: "oversold",
	New: func(s Stores) Shop {
		c := newCounter(s)
		c.closing = func(ctx context.Context, o Order, as string) error {
			// THE MISTAKE: WHERE id = ? AND status = ... is missing.
			if err := exec(ctx, c.DB, "UPDATE orders SET status = ?, closed_ms = ? WHERE id = ?", as, now(), o.ID); err != nil {
				return err
			}
			return c.releaseAndMark(ctx, o)
		}
		c.release = func(ctx context.Context, o Order) error {
			p := c.Redis.TxPipeline()
			p.IncrBy(ctx, stockKey(o.SKU), int64(o.Quantity))
			p.HIncrBy(ctx, buyersKey(o.SKU), o.Buyer, int64(-o.Quantity))
			_, err := p.Exec(ctx)
			return err
		}
		return c
	},
})
