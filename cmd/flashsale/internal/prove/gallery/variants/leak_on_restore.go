package variants

import "context"

// Closes the order, then releases its units, and records nothing in between.
//
// What breaks it: the order is closed in the database. Before its units are
// released in Redis, the process crashes, or Redis does not answer. The retry finds an
// order that is not pending any more, and stops. The units are lost.
//
// Right: the closing transaction also records that the units are to be released,
// here in the row itself. The mark is cleared once the units are released, and a sweep
// retries rows that still have it.
//
// Seen in seckill-go, payment_timeout.go, and in the delayed close of 12306.
var _ = show(Variant{
	Name:   "leak-on-restore",
	Does:   "closes the order, then releases its units",
	Breaks: "A crash in between leaves a closed order, and the retry ignores orders that are not pending.",
	Source: "seckill-go, payment_timeout.go; 12306",
	Caught: "undersold",
	New: func(s Stores) Shop {
		c := newCounter(s)
		c.closing = func(ctx context.Context, o Order, as string) error {
			// THE MISTAKE: the row does not record that units are to be released.
			const released = true
			closed, err := closeRow(ctx, c.DB, o, as, released)
			if err != nil || !closed {
				return err
			}
			return c.release(ctx, o)
		}
		return c
	},
})
