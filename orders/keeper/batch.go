package keeper

import (
	"context"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/store"
)

// commit commits a batch. If the database rejects an order, commit commits each order alone.
func (k *Keeper) commit(ctx context.Context, queued []inventory.QueuedOrder) ([]orders.Decision, error) {
	began := time.Now()
	decisions, err := k.commits.commit(ctx, store.QueuedBatch{SKU: k.sku, Fence: k.fence, Orders: queued})
	if store.IsBadData(err) {
		decisions, err = k.commitEach(ctx, queued)
	}
	if err == nil {
		k.progress()
	}
	k.committed(&Commit{SKU: k.sku, Fence: k.fence, Orders: queued, Began: began, Took: time.Since(began), Err: err})
	for _, d := range decisions {
		rejected := d.Action == orders.Insert && d.Order.Status == orders.Rejected
		if d.Hold != orders.KeepHold || d.Action == orders.MarkPaid || rejected {
			k.todo |= ReleaseHolds
		}
		k.releasesMarked = k.releasesMarked && d.Hold != orders.ReleaseHold
	}
	return decisions, err
}

// commitEach commits orders one by one, so that an order that the database rejects does not stop
// the SKU. It releases the units of a rejected order and refuses the order with Unavailable.
func (k *Keeper) commitEach(ctx context.Context, batch []inventory.QueuedOrder) ([]orders.Decision, error) {
	var decisions []orders.Decision
	for _, q := range batch {
		one, err := k.store.Commit(ctx, k.sku, k.fence, []inventory.QueuedOrder{q})
		if store.IsBadData(err) {
			k.log.Error("database refused the data of an order: the order is rejected", "sku", k.sku, "order", q.OrderID, "error", err)
			one, err = []orders.Decision{{Queued: q, Hold: orders.ReleaseHold, Refused: orders.Unavailable}}, nil
		}
		if err != nil {
			return nil, err
		}
		decisions = append(decisions, one...)
	}
	return decisions, nil
}

// acked is the result of removing a batch from the queue.
type acked struct {
	left int64 // number of entries left in the queue
	err  error
}

// ack removes a durable batch from the queue, and releases the holds of its refused orders.
func (k *Keeper) ack(ctx context.Context, batch []inventory.QueuedOrder, decisions []orders.Decision) acked {
	var release []string
	for _, d := range decisions {
		if d.Hold == orders.ReleaseHold {
			release = append(release, d.Queued.OrderID)
		}
	}
	left, err := k.gate.Ack(ctx, k.sku, batch, release)
	if err == nil {
		k.progress()
		k.counters.Drained.Add(int64(len(batch)))
	}
	return acked{left, err}
}

// refuseOld refuses batch and all later orders of the queue, because a gate of another epoch
// accepted them. These orders are never committed. The rebuild drops them from the queue.
func (k *Keeper) refuseOld(ctx context.Context, batch []inventory.QueuedOrder) (err error) {
	k.todo |= RebuildGate
	for len(batch) > 0 && err == nil {
		refused := make([]orders.Decision, len(batch))
		for i, q := range batch {
			refused[i] = orders.Decision{Queued: q, Refused: orders.Unavailable}
		}
		k.notify(ctx, refused)
		batch, err = k.gate.ReadQueue(ctx, k.sku, batch[len(batch)-1].Entry, int64(k.batch))
	}
	return err
}

// A Commit describes the commit of one batch, for Config.OnCommit. Several keepers may share
// its transaction (groupcommit.go). Took includes the wait for that transaction.
type Commit struct {
	SKU    string
	Fence  int64
	Orders []inventory.QueuedOrder // must not be changed
	Began  time.Time               // time on this process's clock
	Took   time.Duration
	Err    error // if set, the batch may be partly durable, or may become durable later unless Err is ErrFenced

	ClockOffset *time.Duration // Redis's clock minus this process's; nil if not known yet
}

// Reserved returns the time at which the gate reserved o, on this process's clock. It is
// accurate to about a millisecond and never after Began. Reserved returns false if the offset
// of Redis's clock is not known yet.
func (c *Commit) Reserved(o inventory.QueuedOrder) (time.Time, bool) {
	if c.ClockOffset == nil {
		return time.Time{}, false
	}
	at := o.AcceptedAt.Add(-*c.ClockOffset)
	if at.After(c.Began) {
		at = c.Began
	}
	return at, true
}

// Lag returns the time from the acceptance of o at the gate until o was durable, or false if
// Reserved returns false.
func (c *Commit) Lag(o inventory.QueuedOrder) (time.Duration, bool) {
	at, known := c.Reserved(o)
	return c.Began.Add(c.Took).Sub(at), known
}
