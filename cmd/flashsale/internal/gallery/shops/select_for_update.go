package shops

import (
	"context"
	"database/sql"
	"fmt"
)

// Locks the sale's row, looks, and takes.
//
// It is right: from the lock to the commit nobody else sees or changes the
// row. Everybody waits here, for a round trip more than with a conditional
// UPDATE, and each waiting buyer keeps a connection.
//
// Instead: decide who may try before the database is asked, and lock the row
// once for a batch.
//
// Known from every textbook on SQL.
func init() {
	show(Variant{
		Name:   "select-for-update",
		Does:   "SELECT ... FOR UPDATE, an if, and UPDATE",
		Source: "textbooks on SQL",
		MySQL:  true,
		New: func(s Stores) Shop {
			t := newTransaction(s)
			t.take = selectForUpdate
			return t
		},
	})
}

func selectForUpdate(ctx context.Context, tx *sql.Tx, s Sale, o Order) error {
	var sold int
	if err := tx.QueryRowContext(ctx, "SELECT sold FROM sales WHERE sku = ? FOR UPDATE", s.SKU).Scan(&sold); err != nil {
		return fmt.Errorf("lock %s: %w", s.SKU, err)
	}
	if sold+o.Quantity > s.Total {
		return ErrSoldOut
	}
	if _, err := tx.ExecContext(ctx, "UPDATE sales SET sold = ? WHERE sku = ?", sold+o.Quantity, s.SKU); err != nil {
		return fmt.Errorf("take %d of %s: %w", o.Quantity, s.SKU, err)
	}
	return nil
}
