package variants

import (
	"context"
	"errors"
	"time"

	"flashsale/loadtest/client"
)

// Pay is one conditional update. If a payment and an expiry meet, only one of them
// finds the order pending.
func (t *tables) Pay(ctx context.Context, o Order) error {
	_, err := payRow(ctx, t.DB, o)
	return err
}

func payRow(ctx context.Context, db querier, o Order) (paid bool, err error) {
	return update(ctx, db, "UPDATE orders SET status = ?, paid_ms = ? WHERE id = ? AND status = ?", Paid, now(), o.ID, Pending)
}

// closeRow does the same for cancelling and expiring. It reports whether this call
// has closed the order: only then are there units to release.
func closeRow(ctx context.Context, db querier, o Order, as string, released bool) (closed bool, err error) {
	return update(ctx, db, "UPDATE orders SET status = ?, closed_ms = ?, released = ? WHERE id = ? AND status = ?",
		as, now(), released, o.ID, Pending)
}

// sweepEvery is the pause between two sweeps.
const sweepEvery = 50 * time.Millisecond

// sweep repeats all steps until ctx ends. It retries a failed step in the next pass,
// because a store may be unavailable for a while.
func sweep(ctx context.Context, steps ...func(context.Context) error) error {
	for client.Wait(ctx, sweepEvery) == nil {
		for _, step := range steps {
			_ = step(ctx)
		}
	}
	return nil
}

// expire closes up to 100 orders whose time to pay is over.
func (t *tables) expire(ctx context.Context, closeOrder func(context.Context, Order, string) error) error {
	late, err := t.orders(ctx, "WHERE released = FALSE AND status = ? AND expires_ms < ? LIMIT 100", Pending, now())
	for _, o := range late {
		err = errors.Join(err, closeOrder(ctx, o, Expired))
	}
	return err
}
