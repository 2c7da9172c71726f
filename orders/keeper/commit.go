package keeper

import (
	"context"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/store"
)

// commit commits a batch, order by order if the database refuses one of them.
func (k *Keeper) commit(ctx context.Context, queued []inventory.Queued) ([]orders.Decision, error) {
	began := time.Now()
	decisions, err := k.commits.commit(ctx, store.SaleOrders{SKU: k.sku, Fence: k.fence, Orders: queued})
	if store.IsBadData(err) {
		decisions, err = k.commitEach(ctx, queued)
	}
	if err == nil {
		k.progress()
	}
	k.committed(&Commit{SKU: k.sku, Fence: k.fence, Orders: queued, Began: began, Took: time.Since(began), Err: err})
	for _, d := range decisions {
		rejected := d.Action == orders.Insert && d.Order.Status == orders.Rejected
		if d.Hold != orders.Keep || d.Action == orders.PayLate || rejected {
			k.todo |= Release
		}
		k.released = k.released && d.Hold != orders.Release
	}
	return decisions, err
}

// commitEach commits orders one by one, so that one order that the database refuses does not
// stop the SKU. The units of that order are released, and its caller receives ErrUnavailable.
func (k *Keeper) commitEach(ctx context.Context, batch []inventory.Queued) ([]orders.Decision, error) {
	var decisions []orders.Decision
	for _, q := range batch {
		one, err := k.store.Commit(ctx, k.sku, k.fence, []inventory.Queued{q})
		if store.IsBadData(err) {
			k.log.Error("order refused by the database", "sku", k.sku, "order", q.OrderID, "error", err)
			one, err = []orders.Decision{{Queued: q, Hold: orders.Release, Refused: orders.Unavailable}}, nil
		}
		if err != nil {
			return nil, err
		}
		decisions = append(decisions, one...)
	}
	return decisions, nil
}

// acked is the outcome of an attempt to remove a batch from the queue.
type acked struct {
	left int64 // entries
	err  error
}

// ack removes a batch from the queue, once its orders are durable.
func (k *Keeper) ack(ctx context.Context, batch []inventory.Queued, decisions []orders.Decision) acked {
	var release []string
	for _, d := range decisions {
		if d.Hold == orders.Release {
			release = append(release, d.Queued.OrderID)
		}
	}
	left, err := k.gate.Ack(ctx, k.sku, batch, release)
	if err == nil {
		k.progress()
		k.count.Drained.Add(int64(len(batch)))
	}
	return acked{left, err}
}

// refuseOld refuses the orders of batch and all later orders of the queue, because a gate
// of another epoch accepted them. They are never committed, and the rebuild drops them.
func (k *Keeper) refuseOld(ctx context.Context, batch []inventory.Queued) (err error) {
	k.todo |= Rebuild
	for len(batch) > 0 && err == nil {
		refused := make([]orders.Decision, len(batch))
		for i, q := range batch {
			refused[i] = orders.Decision{Queued: q, Refused: orders.Unavailable}
		}
		k.tell(ctx, refused)
		batch, err = k.gate.Queue(ctx, k.sku, batch[len(batch)-1].Entry, int64(k.batch))
	}
	return err
}

// A Commit is what a keeper carried over at once, as Config.OnCommit hears of
// it. Its transaction may be one that other keepers share (groupcommit.go), and Took
// has the wait for that.
type Commit struct {
	SKU    string
	Fence  int64
	Orders []inventory.Queued // that were carried over; not to be changed
	Began  time.Time          // by this process's clock, as all that follows
	Took   time.Duration
	Err    error // not all of it is durable; unless ErrFenced, it may yet be

	ClockOffset *time.Duration // Redis's clock, less this one's
}

// Reserved tells when the gate took the units of one of the orders: to about a
// millisecond, and never after Began. False: it is not known yet how far Redis's
// clock and this one are apart.
func (c *Commit) Reserved(o inventory.Queued) (time.Time, bool) {
	if c.ClockOffset == nil {
		return time.Time{}, false
	}
	at := o.At.Add(-*c.ClockOffset)
	if at.After(c.Began) {
		at = c.Began
	}
	return at, true
}

// Lag is how long after its units were taken an order was durable.
func (c *Commit) Lag(o inventory.Queued) (time.Duration, bool) {
	at, known := c.Reserved(o)
	return c.Began.Add(c.Took).Sub(at), known
}
