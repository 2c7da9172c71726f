package variants

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"flashsale/orders/lock"
	"flashsale/orders/lock/lease"
)

// A distributed lock around each order: lock, look, insert, commit, unlock.
//
// It is right as long as the steps keep this order. The lock can be lost while it is
// held, for example by a pause longer than its lease, so the UPDATE compares with the
// value that was read. Every order pays for a lock, a transaction and a sync, and all
// other orders wait.
//
// Instead: hold the lock for long, and let its holder store whole batches, as the
// keeper does.
//
// Known from a thousand articles on flash sales.
var _ = show(Variant{
	Name:   "lock-per-order",
	Does:   "lock in Redis, SELECT, INSERT, UPDATE, COMMIT, unlock",
	Source: "articles on flash sales",
	New: func(s Stores) Shop {
		t := newTransaction(s)
		locks := newLocks(s)
		t.take, t.also = lookAndTake, locks.Run
		t.within = func(ctx context.Context, sku string, f func(*sql.Tx) error) error {
			return locked(ctx, locks, sku, func(ctx context.Context) error {
				return t.transact(ctx, f)
			})
		}
		return lockPerOrder{t}
	},
})

type lockPerOrder struct{ *transaction }

// Order first looks without the lock. That suffices to refuse an order, and orders
// that come too late need not wait for the lock.
func (l lockPerOrder) Order(ctx context.Context, o Order) (Order, bool, error) {
	s, err := l.Sale(ctx, o.SKU)
	if err != nil || s.OnPayment {
		return l.transaction.Order(ctx, o)
	}
	if left, err := l.unsold(ctx, s); err != nil || left >= o.Quantity {
		return l.transaction.Order(ctx, o)
	}
	earlier, err := l.sameKey(ctx, o)
	if errors.Is(err, ErrNotFound) {
		return o, false, ErrSoldOut
	}
	return earlier, true, err
}

func newLocks(s Stores) *lock.Client {
	return lock.New(s.Redis, lease.Config{Lease: time.Second, Logger: slog.New(slog.DiscardHandler)})
}

// locked runs f while it holds the sale's lock. It waits for the lock at most as
// long as a buyer does.
func locked(ctx context.Context, locks *lock.Client, sku string, f func(ctx context.Context) error) error {
	wait, cancel := context.WithTimeout(ctx, buyersPatience)
	defer cancel()
	held, err := locks.Acquire(wait, "shop:{"+sku+"}:lock")
	if err != nil {
		return errors.Join(ErrBusy, err)
	}
	err = f(held.Context())
	_ = held.Release(ctx) // if the release fails, the lock expires with its lease
	return err
}

// lookAndTake reads and then writes. The lock excludes other writers in between.
func lookAndTake(ctx context.Context, tx *sql.Tx, s Sale, o Order) error {
	sold, err := look(ctx, tx, s, o, "")
	if err != nil {
		return err
	}
	taken, err := update(ctx, tx, "UPDATE sales SET sold = ? WHERE sku = ? AND sold = ?", sold+o.Quantity, s.SKU, sold)
	if err == nil && !taken {
		err = ErrBusy // another order holds the lock now
	}
	return err
}
