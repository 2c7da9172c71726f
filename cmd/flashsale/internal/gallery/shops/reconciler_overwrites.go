package shops

import "context"

// Repairs the stock by setting it to what the database says is left.
//
// What breaks it: A has taken 2 units in Redis, its row is not written yet. The
// reconciler adds the rows up, sees 2 units more than Redis has, and sets the
// stock. A's row arrives, and B buys A's units. The busier the sale, the more
// is on its way at any moment, and the more is "repaired".
//
// Right: compare only what is at rest, or count what is on its way; and correct
// under a fence, with the gate closed, as the rebuild does.
//
// Seen in thoughtsbeta/flash-sale; springboot-seckill reloads the stock whenever
// it falls below zero, which reopens a sale that is sold out.
func init() {
	show(Variant{
		Name:   "reconciler-overwrites",
		Does:   "sets the stock to total - SUM(sold), now and then",
		Breaks: "Orders on their way from Redis to the database are not in the sum, so their units are put on sale again.",
		Source: "thoughtsbeta/flash-sale; springboot-seckill",
		Caught: "oversold",
		New: func(s Stores) Shop {
			c := newCounter(s)
			c.also = append(c.also, func(ctx context.Context) error { return reconcile(ctx, c) })
			return c
		},
	})
}

func reconcile(ctx context.Context, c *counter) (err error) {
	c.sales.Range(func(sku, sale any) bool {
		var sold int
		sold, err = c.sum(ctx, "SELECT SUM(quantity) FROM orders WHERE sku = ? AND status IN (?, ?)", sku, Pending, Paid)
		if err != nil {
			return false
		}
		// THE MISTAKE: what has been taken and is not yet a row?
		err = c.Redis.Set(ctx, stockKey(sku.(string)), sale.(Sale).Total-sold, 0).Err()
		return err == nil
	})
	return err
}
