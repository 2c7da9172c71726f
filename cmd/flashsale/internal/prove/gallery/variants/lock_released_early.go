package variants

import (
	"context"
	"database/sql"
)

// The lock is inside the transaction: it is released before the commit.
//
// What breaks it: A acquires the lock, reads 9 of 10 sold, writes 10, and releases
// the lock; its transaction is about to commit. B acquires the lock and reads 9,
// because A's change is not yet visible. B writes 10 as well, and two buyers have
// the last unit. The lock and the transaction are each right in their own function.
// The mistake is which one encloses the other.
//
// Right: lock_per_order.go, with the lock around the transaction. In addition, let
// the UPDATE compare: then a lock that fails cannot oversell.
//
// Seen in eventyay issue 1359, vendure issue 3508 and nopCommerce issue 8085; as
// @Transactional around a method that locks, in countless more.
var _ = show(Variant{
	Name:   "lock-released-early",
	Does:   "BEGIN, INSERT, lock, SELECT, UPDATE, unlock, COMMIT",
	Breaks: "The next holder of the lock reads the value from before a commit that is still to come.",
	Source: "eventyay 1359; vendure 3508; nopCommerce 8085",
	Caught: "oversold",
	MySQL:  true,
	New: func(s Stores) Shop {
		t := newTransaction(s)
		locks := newLocks(s)
		t.also = locks.Run
		t.take = func(ctx context.Context, tx *sql.Tx, s Sale, o Order) error {
			// THE MISTAKE: the lock is released when this returns, before the commit.
			return locked(ctx, locks, s.SKU, func(context.Context) error {
				return lookAndSet("")(ctx, tx, s, o)
			})
		}
		return t
	},
})
