package store

import (
	"fmt"
	"strings"

	"gorm.io/gorm"

	"flashsale/orders"
)

// What a keeper's transaction does for each single order is written by hand: in
// gorm it takes twice the node's time, and some of the database's.

// pendingColumns are those that a new pending order has anything in. The others
// are not named: a null that is spelled out has its price, too.
var pendingColumns = []string{
	"id", "sku", "buyer", "quantity", "amount", "currency", "status", "idempotency_key", "request_hash", "created_at", "expires_at",
}

// insertOrders inserts new rows, of which nearly all are pending.
func insertOrders(tx *gorm.DB, rows []*orders.Order) error {
	args := make([]any, 0, len(rows)*len(pendingColumns))
	var others []*orders.Order
	for _, o := range rows {
		if o.Status != orders.PendingPayment {
			others = append(others, o)
			continue
		}
		args = append(args, o.ID, o.SKU, o.Buyer, o.Quantity, o.Amount, o.Currency, string(o.Status),
			o.IdempotencyKey, o.RequestHash, o.CreatedAt, o.ExpiresAt)
	}
	if n := len(rows) - len(others); n > 0 {
		row := "(" + list("?", len(pendingColumns)) + ")"
		_, err := tx.Statement.ConnPool.ExecContext(tx.Statement.Context,
			"INSERT INTO `orders` ("+strings.Join(pendingColumns, ", ")+") VALUES "+list(row, n), args...)
		if err != nil {
			return fmt.Errorf("insert %d orders: %w", n, err)
		}
	}
	if len(others) > 0 {
		if err := tx.Create(others).Error; err != nil {
			return fmt.Errorf("insert %d orders that are not pending: %w", len(others), err)
		}
	}
	return nil
}

// ledgerColumns is what a ledger needs of an order: half of its columns.
var ledgerColumns = []string{"id", "sku", "buyer", "quantity", "status", "idempotency_key", "request_hash", "restored_at"}

// readForLedger reads those columns of the orders that the condition picks.
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
		err := rows.Scan(&o.ID, &o.SKU, &o.Buyer, &o.Quantity, &o.Status, &o.IdempotencyKey, &o.RequestHash, &o.RestoredAt)
		if err != nil {
			return nil, err
		}
		found = append(found, o)
	}
	return found, rows.Err()
}

// list is n times the same with commas between, n being at least 1.
func list(one string, n int) string { return one + strings.Repeat(","+one, n-1) }
