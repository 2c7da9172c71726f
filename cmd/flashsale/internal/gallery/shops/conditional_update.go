package shops

import (
	"context"
	"database/sql"
	"fmt"
)

// One UPDATE that takes the units only if there are enough, in the transaction
// that inserts the order.
//
// It is right, and the simplest that is: the database compares and takes in
// one step, and commits order and units together. Its price: the sale's row is
// locked until the commit is on disk, so orders are sold one after the other,
// each for a sync of its own.
//
// Instead: the same UPDATE for a whole batch of orders. One lock, one
// transaction and one sync then pay for hundreds.
//
// Known as the compare-and-set of every SQL database.
func init() {
	show(Variant{
		Name:   "conditional-update",
		Does:   "UPDATE ... SET sold = sold + n WHERE sold + n <= total",
		Source: "every SQL database",
		MySQL:  true,
		New: func(s Stores) Shop {
			t := newTransaction(s)
			t.take = conditionalUpdate
			return t
		},
	})
}

func conditionalUpdate(ctx context.Context, tx *sql.Tx, s Sale, o Order) error {
	r, err := tx.ExecContext(ctx, "UPDATE sales SET sold = sold + ? WHERE sku = ? AND sold + ? <= total", o.Quantity, s.SKU, o.Quantity)
	if err != nil {
		return fmt.Errorf("take %d of %s: %w", o.Quantity, s.SKU, err)
	}
	if n, err := r.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return ErrSoldOut
}
