package shops

import (
	"context"
	"database/sql"
	"fmt"
)

// An order takes nothing: it is a row, as many as come. Its payment takes the
// units, by a conditional UPDATE in the transaction that marks it as paid.
//
// It is right: what is paid never exceeds the total, and who does not pay keeps
// nothing from anybody. But an order promises nothing: whoever loses learns it at
// the checkout. And in a rush all pay one after the other, each with the sale's
// row locked until the commit is on disk.
//
// Instead: where buyers pay within minutes, hold their units until then. Where
// they don't, a gate and batches do for payments what they do for orders.
//
// Known from shops that take stock when the money is there.
func init() {
	show(Variant{
		Name:      "decrement-on-payment",
		Does:      "orders take nothing, UPDATE ... SET sold = sold + n when they are paid",
		Note:      "its orders promise no units, so it is judged by what is paid; durable are paid orders, each placed and then paid, and p99 is of both",
		Source:    "shops that take stock when the money is there",
		MySQL:     true,
		OnPayment: true,
		New:       func(s Stores) Shop { return onPayment{newTransaction(s)} },
	})
}

type onPayment struct{ *transaction }

// Order claims neither units nor the buyer's limit: both are for what is paid.
func (p onPayment) Order(ctx context.Context, o Order) (Order, bool, error) {
	err := insert(ctx, p.DB, o)
	if err == nil {
		return o, false, nil
	}
	earlier, missing := p.orders(ctx, "WHERE sku = ? AND buyer = ? AND order_key = ?", o.SKU, o.Buyer, o.Key)
	if missing != nil || len(earlier) == 0 {
		return o, false, err
	}
	return earlier[0], earlier[0].ID != o.ID, nil
}

// Pay takes the units of an order that is pending, or refuses and leaves it so.
func (p onPayment) Pay(ctx context.Context, o Order) error {
	s, err := p.Sale(ctx, o.SKU)
	if err != nil {
		return err
	}
	return p.within(ctx, o.SKU, func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, "UPDATE orders SET status = ?, paid_ms = ? WHERE id = ? AND status = ?", Paid, now(), o.ID, Pending)
		if err != nil {
			return fmt.Errorf("pay %s: %w", o.ID, err)
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return err // it has ended, or is paid already
		}
		if err := countForBuyer(ctx, tx, o); err != nil {
			return err
		}
		var units int
		if err := tx.QueryRowContext(ctx, "SELECT units FROM buyers WHERE sku = ? AND buyer = ?", o.SKU, o.Buyer).Scan(&units); err != nil {
			return fmt.Errorf("read buyer %s: %w", o.Buyer, err)
		}
		if units > s.PerBuyer {
			return ErrBuyerLimit
		}
		return conditionalUpdate(ctx, tx, s, o)
	})
}

// Close ends an order that has taken nothing.
func (p onPayment) Close(ctx context.Context, o Order, as string) error {
	_, err := closeRow(ctx, p.DB, o, as, true)
	return err
}

// Sold counts what is paid: pending orders have no units.
func (p onPayment) Sold(ctx context.Context, sku string) (pending, paid int64, err error) {
	_, paid, err = p.tables.Sold(ctx, sku)
	return 0, paid, err
}

// Run expires, by this Close.
func (p onPayment) Run(ctx context.Context) error {
	return sweep(ctx, func(ctx context.Context) error { return p.expire(ctx, p.Close) })
}
