package variants

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// One row for each unit. A buyer takes rows that are free and not locked by another
// buyer: SELECT ... FOR UPDATE SKIP LOCKED.
//
// It is right, and buyers commit in parallel. But a skipped row is not sold yet. Too
// few unlocked rows mean "sold out" only if locked rows are counted as well. And a
// sale of a million units has a million rows to create, to lock and to release.
//
// Instead: a number. Units of one kind need no identity.
//
// Known from job queues in SQL; SKIP LOCKED came with MySQL 8.0 and MariaDB 10.6.
var _ = show(Variant{
	Name:   "row-per-unit",
	Does:   "SELECT ... WHERE order_id IS NULL LIMIT n FOR UPDATE SKIP LOCKED",
	Source: "job queues in SQL",
	MySQL:  true,
	New: func(s Stores) Shop {
		t := rowPerUnit{newTransaction(s)}
		t.take, t.release, t.left = takeRows, releaseRows, t.free
		return t
	},
})

type rowPerUnit struct{ *transaction }

// errSkipped means that there are enough free units, but other buyers locked them.
var errSkipped = errors.New("variants: all free units are locked by other orders")

func (t rowPerUnit) Order(ctx context.Context, o Order) (Order, bool, error) {
	for {
		sold, replayed, err := t.transaction.Order(ctx, o)
		if !errors.Is(err, errSkipped) {
			return sold, replayed, err
		}
		// The order is refused only if too few units are free, locked or not.
		left, err := t.free(ctx, Sale{SKU: o.SKU})
		if err != nil {
			return o, false, err
		}
		if left < o.Quantity {
			return o, false, ErrSoldOut
		}
	}
}

func takeRows(ctx context.Context, tx *sql.Tx, s Sale, o Order) error {
	units, err := lockRows(ctx, tx, s, o)
	if err != nil {
		return fmt.Errorf("lock units of %s: %w", s.SKU, err)
	}
	if len(units) < o.Quantity {
		return errSkipped
	}
	args := append([]any{o.ID, s.SKU}, units...)
	return exec(ctx, tx, "UPDATE units SET order_id = ? WHERE sku = ? AND n IN (?"+strings.Repeat(", ?", len(units)-1)+")", args...)
}

func lockRows(ctx context.Context, tx *sql.Tx, s Sale, o Order) (units []any, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT n FROM units WHERE sku = ? AND order_id IS NULL LIMIT ? FOR UPDATE SKIP LOCKED", s.SKU, o.Quantity)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		units = append(units, n)
	}
	return units, rows.Err()
}

func releaseRows(ctx context.Context, tx *sql.Tx, o Order) error {
	return exec(ctx, tx, "UPDATE units SET order_id = NULL WHERE sku = ? AND order_id = ?", o.SKU, o.ID)
}

func (t rowPerUnit) free(ctx context.Context, s Sale) (int, error) {
	return sum(ctx, t.DB, "SELECT COUNT(*) FROM units WHERE sku = ? AND order_id IS NULL", s.SKU)
}

// Open creates the rows, a thousand at a time.
func (t rowPerUnit) Open(ctx context.Context, s Sale) error {
	for n := 0; n < s.Total; {
		var values []string
		for ; n < s.Total && len(values) < 1000; n++ {
			values = append(values, fmt.Sprintf("(?, %d)", n))
		}
		args := slices.Repeat([]any{s.SKU}, len(values))
		if err := exec(ctx, t.DB, "INSERT INTO units (sku, n) VALUES "+strings.Join(values, ", "), args...); err != nil {
			return err
		}
	}
	return t.transaction.Open(ctx, s)
}
