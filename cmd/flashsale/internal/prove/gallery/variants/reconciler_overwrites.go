package variants

import (
	"context"
	"sync"
	"time"
)

// Repairs the stock by setting it to the number that the database has left.
//
// What breaks it: A has taken 2 units in Redis, and A's row is not yet written. The
// reconciler adds up the rows, gets 2 units more than Redis has, and sets the stock.
// A's row arrives, and B buys A's units. The busier the sale, the more orders are in
// flight, and the more units are sold twice.
//
// Right: compare only sales without orders in flight, or count those orders. Correct
// the stock under a fence while the gate is shut, as the rebuild does.
//
// Seen in thoughtsbeta/flash-sale; springboot-seckill reloads the stock whenever
// it falls below zero, which reopens a sale that is sold out.
var _ = show(Variant{
	Name:   "reconciler-overwrites",
	Does:   "sets the stock to total - SUM(sold) periodically",
	Breaks: "Orders between Redis and the database are not in the sum, so their units are put on sale again.",
	Source: "thoughtsbeta/flash-sale; springboot-seckill",
	Caught: "oversold",
	New: func(s Stores) Shop {
		r := &reconciler{counter: newCounter(s), pass: make(chan struct{})}
		r.takeAtOnce = r.take
		r.take, r.first = r.takeNearTheEnd, append(r.first, r.reconcile)
		return r
	},
})

type reconciler struct {
	*counter
	takeAtOnce func(context.Context, Sale, Order) (string, error)

	mu    sync.Mutex
	pass  chan struct{} // closed at the end of the next pass
	await int           // orders that wait for the next pass
}

func (r *reconciler) reconcile(ctx context.Context) (err error) {
	r.mu.Lock()
	pass, await := r.pass, r.await
	r.pass, r.await = make(chan struct{}), 0
	r.mu.Unlock()
	defer close(pass)
	r.sales.Range(func(sku, sale any) bool {
		var left, sold int
		if left, err = r.Redis.Get(ctx, stockKey(sku.(string))).Int(); err != nil || left > 0 && await == 0 {
			return err == nil // skip a sale whose units, sold twice or not, are still on sale
		}
		sold, err = sum(ctx, r.DB, "SELECT SUM(quantity) FROM orders WHERE sku = ? AND status IN (?, ?)", sku, Pending, Paid)
		if err != nil {
			return false
		}
		// THE MISTAKE: the sum misses units that are taken and not yet a row.
		err = r.Redis.Set(ctx, stockKey(sku.(string)), sale.(Sale).Total-sold, 0).Err()
		return err == nil
	})
	return err
}

// takeNearTheEnd makes the mistake certain, which a rush alone does not. The last
// orders wait between Redis and the database until the stock has been set without
// them.
func (r *reconciler) takeNearTheEnd(ctx context.Context, s Sale, o Order) (id string, err error) {
	id, err = r.takeAtOnce(ctx, s, o)
	if err != nil || id != o.ID {
		return id, err
	}
	if left, err := r.Redis.Get(ctx, stockKey(s.SKU)).Int(); err != nil || left > manyLeft {
		return id, nil
	}
	r.mu.Lock()
	pass := r.pass
	r.await++
	r.mu.Unlock()
	time.Sleep(thinks)
	select {
	case <-pass:
	case <-ctx.Done():
	}
	return id, nil
}
