package variants

import (
	"context"
	"errors"
	"time"

	"flashsale/loadtest/client"
)

// Pay is one conditional update: of a payment and an expiry in the same
// instant, one finds the order pending.
func (t *tables) Pay(ctx context.Context, o Order) error {
	_, err := payRow(ctx, t.DB, o)
	return err
}

func payRow(ctx context.Context, db querier, o Order) (paid bool, err error) {
	return update(ctx, db, "UPDATE orders SET status = ?, paid_ms = ? WHERE id = ? AND status = ?", Paid, now(), o.ID, Pending)
}

// closeRow is the same for cancelling and expiring, and says whether it was
// this call that closed the order: only then there is something to give back.
func closeRow(ctx context.Context, db querier, o Order, as string, restored bool) (closed bool, err error) {
	return update(ctx, db, "UPDATE orders SET status = ?, closed_ms = ?, restored = ? WHERE id = ? AND status = ?",
		as, now(), restored, o.ID, Pending)
}

// sweepEvery is how often a shop looks for what has to be done.
const sweepEvery = 50 * time.Millisecond

// sweep does all of the steps, again and again, until ctx ends. A step that
// fails is done with the next round: a store may be away for a while.
func sweep(ctx context.Context, steps ...func(context.Context) error) error {
	for client.Wait(ctx, sweepEvery) == nil {
		for _, step := range steps {
			_ = step(ctx)
		}
	}
	return nil
}

// expire closes what was not paid in time, some at a time.
func (t *tables) expire(ctx context.Context, closeOrder func(context.Context, Order, string) error) error {
	late, err := t.orders(ctx, "WHERE restored = FALSE AND status = ? AND expires_ms < ? LIMIT 100", Pending, now())
	for _, o := range late {
		err = errors.Join(err, closeOrder(ctx, o, Expired))
	}
	return err
}
