package variants

import (
	"context"
	"database/sql"
)

// One UPDATE takes the units only if there are enough, in the transaction that
// inserts the order.
//
// It is right, and the simplest right way: the database compares and takes in one
// step, and commits order and units together. Its price: the sale's row is locked
// until the commit is on disk, so orders are sold one after the other, each with its
// own sync.
//
// Instead: the same UPDATE for a whole batch of orders. One lock, one transaction
// and one sync then pay for hundreds of orders.
//
// Known as the compare-and-set of every SQL database.
var _ = show(Variant{
	Name:   "conditional-update",
	Does:   "UPDATE ... SET sold = sold + n WHERE sold + n <= total",
	Source: "every SQL database",
	New:    takenBy(conditionalUpdate),
})

func conditionalUpdate(ctx context.Context, tx *sql.Tx, s Sale, o Order) error {
	taken, err := update(ctx, tx, "UPDATE sales SET sold = sold + ? WHERE sku = ? AND sold + ? <= total", o.Quantity, s.SKU, o.Quantity)
	if err == nil && !taken {
		err = ErrSoldOut
	}
	return err
}
