package store

import (
	"fmt"
	"strings"

	"gorm.io/gorm"

	"flashsale/orders"
)

// The SQL of this file runs for every order of a keeper's transaction. It is written by hand,
// because gorm takes twice the CPU time in the node.

// pendingColumns are the columns that a new pending order sets. The other columns are left
// out, because an explicit NULL costs time, too.
var pendingColumns = []string{
	"id", "sku", "buyer", "quantity", "amount", "currency", "status", "idempotency_key", "request_hash", "created_at", "expires_at",
}

// insertOrders inserts new rows. It is fast for pending orders, which nearly all are.
func insertOrders(tx *gorm.DB, rows []*orders.Order) error {
	args := make([]any, 0, len(rows)*len(pendingColumns))
	var notPending []*orders.Order
	for _, o := range rows {
		if o.Status != orders.PendingPayment {
			notPending = append(notPending, o)
			continue
		}
		args = append(args, o.ID, o.SKU, o.Buyer, o.Quantity, o.Amount, o.Currency, string(o.Status),
			o.IdempotencyKey, o.RequestHash, o.CreatedAt, o.ExpiresAt)
	}
	if n := len(rows) - len(notPending); n > 0 {
		row := "(" + list("?", len(pendingColumns)) + ")"
		_, err := tx.Statement.ConnPool.ExecContext(tx.Statement.Context,
			"INSERT INTO `orders` ("+strings.Join(pendingColumns, ", ")+") VALUES "+list(row, n), args...)
		if err != nil {
			return fmt.Errorf("insert %d orders: %w", n, err)
		}
	}
	if len(notPending) > 0 {
		if err := tx.Create(notPending).Error; err != nil {
			return fmt.Errorf("insert %d orders that are not pending: %w", len(notPending), err)
		}
	}
	return nil
}

// ledgerColumns are the columns that Ledger.Decide needs, about half of all.
var ledgerColumns = []string{"id", "sku", "buyer", "quantity", "status", "idempotency_key", "request_hash", "payment_ref", "restored_at"}

// readForLedger reads the ledgerColumns of the orders that match the condition.
func readForLedger(tx *gorm.DB, table, condition string, args []any) (_ []orders.Order, err error) {
	rows, err := tx.Statement.ConnPool.QueryContext(tx.Statement.Context,
		"SELECT "+strings.Join(ledgerColumns, ", ")+" FROM "+table+" WHERE "+condition, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var found []orders.Order
	for rows.Next() {
		var o orders.Order
		err := rows.Scan(&o.ID, &o.SKU, &o.Buyer, &o.Quantity, &o.Status, &o.IdempotencyKey, &o.RequestHash, &o.PaymentRef, &o.RestoredAt)
		if err != nil {
			return nil, err
		}
		found = append(found, o)
	}
	return found, rows.Err()
}

// list returns n copies of one, separated by commas. n is at least 1.
func list(one string, n int) string { return one + strings.Repeat(","+one, n-1) }
