package variants

import (
	"context"
	"database/sql"
)

// Locks the sale's row, looks, and takes.
//
// It is right: from the lock to the commit, no other transaction reads or changes
// the row. Every order waits for this lock, one round trip longer than with a
// conditional UPDATE, and each waiting buyer occupies a connection.
//
// Instead: decide who may try before the database is asked, and lock the row once
// for a batch.
//
// Known from every textbook on SQL.
var _ = show(Variant{
	Name:   "select-for-update",
	Does:   "SELECT ... FOR UPDATE, an if, and UPDATE",
	Source: "textbooks on SQL",
	MySQL:  true,
	New:    takenBy(lookAndSet(" FOR UPDATE")),
})

// look reads the units sold, and returns ErrSoldOut if the order exceeds the total.
func look(ctx context.Context, tx *sql.Tx, s Sale, o Order, locked string) (sold int, err error) {
	sold, err = sum(ctx, tx, "SELECT sold FROM sales WHERE sku = ?"+locked, s.SKU)
	if err == nil && sold+o.Quantity > s.Total {
		err = ErrSoldOut
	}
	return sold, err
}

// lookAndSet returns a take function that reads the units sold and writes the sum.
func lookAndSet(locked string) func(context.Context, *sql.Tx, Sale, Order) error {
	return func(ctx context.Context, tx *sql.Tx, s Sale, o Order) error {
		sold, err := look(ctx, tx, s, o, locked)
		if err != nil {
			return err
		}
		return exec(ctx, tx, "UPDATE sales SET sold = ? WHERE sku = ?", sold+o.Quantity, s.SKU)
	}
}
