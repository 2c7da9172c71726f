package variants

import "context"

// Closes the order, then gives the units back, and remembers nothing between.
//
// What breaks it: the order is closed in the database. Before its units are
// back in Redis the process dies, or Redis does not answer. The retry finds an
// order that is not pending any more, and stops: there seems to be nothing to
// do. The units are gone for ever.
//
// Right: closing leaves a note in the same transaction, here the row itself,
// not yet restored. It goes once the units are back, and somebody looks for
// those that did not.
//
// Seen in seckill-go, payment_timeout.go, and in the delayed close of 12306.
var _ = show(Variant{
	Name:   "leak-on-restore",
	Does:   "closes the order, then gives the units back",
	Breaks: "Whoever dies in between leaves a closed order, and the retry stops at one that is not pending.",
	Source: "seckill-go, payment_timeout.go; 12306",
	Caught: "undersold",
	New: func(s Stores) Shop {
		c := newCounter(s)
		c.closing = func(ctx context.Context, o Order, as string) error {
			// THE MISTAKE: closed is all that is written down.
			const restored = true
			closed, err := closeRow(ctx, c.DB, o, as, restored)
			if err != nil || !closed {
				return err
			}
			return c.restore(ctx, o)
		}
		return c
	},
})
