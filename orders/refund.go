package orders

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
)

// A Refund is a payment of a closed order: money that is due back. It is one
// for each order and payment reference. Not for each reference alone: that is
// the payer's word, and one who uses it for two orders is owed for both.
//
// A payment is taken or refunded, never both: either is decided under the
// sale's row lock by who has looked for the other first. And a refund is for
// good: its reference stays refused, whatever comes back to sale later.
type Refund struct {
	OrderID    string `gorm:"primaryKey"`
	PaymentRef string `gorm:"primaryKey"`
	SKU        string `gorm:"column:sku"`
	Buyer      string
	Amount     int64 // minor units of Currency
	Currency   string
	Reason     string    // why the payment was not taken: a problem code or the order's status
	CreatedAt  time.Time `gorm:"autoCreateTime:false"` // by the database's clock
}

// TableName is for gorm.
func (Refund) TableName() string { return "refunds" }

// Why a payment is refunded, beside the codes of a refusal and the statuses of
// a closed order.
const (
	notRestored = "not_restored" // the units of the order had not come back to sale in time
	noAnswer    = "unavailable"  // gate or keeper did not answer in time
)

func newRefund(o *Order, ref, reason string, now time.Time) *Refund {
	return &Refund{
		OrderID: o.ID, PaymentRef: ref, SKU: o.SKU, Buyer: o.Buyer,
		Amount: o.Amount, Currency: o.Currency, Reason: reason, CreatedAt: now,
	}
}

// refund records that a payment of o is due back, unless the order has been
// paid meanwhile or the refund is there: payment tells.
func (s *Store) refund(ctx context.Context, o *Order, ref, reason string) error {
	err := s.transact(ctx, func(tx *gorm.DB) error {
		sale, err := s.lockSale(tx, o.SKU) // the keeper does not turn the order into a paid one meanwhile
		if err != nil {
			return err
		}
		var now Order
		if err := tx.Where("id = ?", o.ID).Take(&now).Error; err != nil || !now.Status.Closed() {
			return err
		}
		known, err := refunded(tx, o.ID, ref)
		if err != nil || known {
			return err
		}
		return tx.Create(newRefund(&now, ref, reason, sale.Now)).Error
	})
	if err != nil {
		return fmt.Errorf("refund a payment of %s: %w", o.ID, err)
	}
	return nil
}

func refunded(tx *gorm.DB, id, ref string) (bool, error) {
	var n int64
	err := tx.Model(&Refund{}).Where("order_id = ? AND payment_ref = ?", id, ref).Count(&n).Error
	return n > 0, err
}

// payment tells what has become of a payment of an ended order: taken, refused
// (ErrOrderClosed with a refund, ErrAlreadyPaid), or not decided.
//
// A payment of an order that another one has paid leaves no refund: its payer
// hears at every repetition that it was not taken, and has what was paid for.
// Owed is only who paid for an order and can no longer have it.
func (s *Store) payment(ctx context.Context, buyer, id, ref string) (o *Order, decided bool, err error) {
	if o, err = s.OrderOf(ctx, buyer, id); err != nil {
		return nil, false, err
	}
	if o.paidBy(ref) {
		return o, true, nil
	}
	var refunds []Refund
	if err := s.db.WithContext(ctx).Where("order_id = ? AND payment_ref = ?", id, ref).Find(&refunds).Error; err != nil {
		return nil, false, fmt.Errorf("look for a refund of %s: %w", id, err)
	}
	switch {
	case len(refunds) > 0 && o.Status == Unheld:
		return o, true, reasonError(refunds[0].Reason)
	case len(refunds) > 0:
		return o, true, ErrOrderClosed
	}
	if o.Status == Paid {
		return o, true, ErrAlreadyPaid
	}
	return o, false, nil
}

// Refunds reads a page of all refunds by order and reference. The cursor is as
// in OrdersOfBuyer.
func (s *Store) Refunds(ctx context.Context, limit int, cursor string) ([]Refund, string, error) {
	q := s.db.WithContext(ctx)
	if cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		id, ref, _ := strings.Cut(string(raw), " ")
		if err != nil || !isOrderID(id) || !visibleASCII(ref, 128) {
			return nil, "", errCursor()
		}
		q = q.Where("order_id > ? OR (order_id = ? AND payment_ref > ?)", id, id, ref)
	}
	var rows []Refund
	if err := q.Order("order_id, payment_ref").Limit(limit + 1).Find(&rows).Error; err != nil {
		return nil, "", fmt.Errorf("read refunds: %w", err)
	}
	if len(rows) <= limit {
		return rows, "", nil
	}
	last := rows[limit-1]
	return rows[:limit], base64.RawURLEncoding.EncodeToString([]byte(last.OrderID + " " + last.PaymentRef)), nil
}

// refundJSON is a refund as API.md has it.
type refundJSON struct {
	PaymentRef string `json:"payment_ref"`
	OrderID    string `json:"order_id"`
	SKU        string `json:"sku"`
	Buyer      string `json:"buyer"`
	Amount     int64  `json:"amount"`
	Currency   string `json:"currency"`
	Reason     string `json:"reason"`
	CreatedAt  stamp  `json:"created_at"`
}

func (r *Refund) json() refundJSON {
	return refundJSON{
		PaymentRef: r.PaymentRef, OrderID: r.OrderID, SKU: r.SKU, Buyer: r.Buyer,
		Amount: r.Amount, Currency: r.Currency, Reason: r.Reason, CreatedAt: stamp(r.CreatedAt),
	}
}
