package variants

import (
	"context"
	"sync"
	"time"
)

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
var _ = show(Variant{
	Name:   "reconciler-overwrites",
	Does:   "sets the stock to total - SUM(sold), now and then",
	Breaks: "Orders on their way from Redis to the database are not in the sum, so their units are put on sale again.",
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
	pass  chan struct{} // closed at the end of the pass that begins next
	await int           // how many orders wait for that
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
			return err == nil // what it put on sale wrongly stays there until somebody buys it
		}
		sold, err = sum(ctx, r.DB, "SELECT SUM(quantity) FROM orders WHERE sku = ? AND status IN (?, ?)", sku, Pending, Paid)
		if err != nil {
			return false
		}
		// THE MISTAKE: what has been taken and is not yet a row?
		err = r.Redis.Set(ctx, stockKey(sku.(string)), sale.(Sale).Total-sold, 0).Err()
		return err == nil
	})
	return err
}

// takeNearTheEnd has the mistake show in every run, which a rush brings about now
// and then: the last orders are on their way to the database for a while, until
// the stock has been set without them.
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
