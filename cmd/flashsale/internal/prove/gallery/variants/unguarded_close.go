package variants

import "context"

// Closes an order whatever state it is in, and gives its units back.
//
// What breaks it: somebody clicks "cancel" twice, or a cancellation meets the
// expiry. Both update the row, both give the units back, and the second time
// they are somebody else's. Or a payment arrives first, and a paid order is
// cancelled. Reading the status before does not help: both read "pending".
//
// Right: UPDATE ... WHERE status = 'pending_payment', and give back only where
// that changed a row.
//
// Seen in mall, updateOrderStatus; magento2 issue 9969; woocommerce issue 22489.
var _ = show(Variant{
	Name:   "unguarded-close",
	Does:   "UPDATE orders SET status = 'cancelled' WHERE id = ?",
	Breaks: "Two clicks close the order twice, and its units come back twice.",
	Source: "mall; magento2 9969; woocommerce 22489",
	Caught: "oversold",
	New: func(s Stores) Shop {
		c := newCounter(s)
		c.closing = func(ctx context.Context, o Order, as string) error {
			// THE MISTAKE: WHERE id = ? AND status = ... is missing.
			if err := exec(ctx, c.DB, "UPDATE orders SET status = ?, closed_ms = ? WHERE id = ?", as, now(), o.ID); err != nil {
				return err
			}
			return c.restoreAndMark(ctx, o)
		}
		c.restore = func(ctx context.Context, o Order) error {
			p := c.Redis.TxPipeline()
			p.IncrBy(ctx, stockKey(o.SKU), int64(o.Quantity))
			p.HIncrBy(ctx, buyersKey(o.SKU), o.Buyer, int64(-o.Quantity))
			_, err := p.Exec(ctx)
			return err
		}
		return c
	},
})
