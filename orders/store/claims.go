package store

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"flashsale/orders"
)

// RecordClaim records a refund claim for a payment of o, unless the order has been paid in the
// meantime or the claim exists (see payment).
func (s *Store) RecordClaim(ctx context.Context, o *orders.Order, ref string, reason orders.Reason) error {
	// The row lock keeps the keeper from turning the order into a paid one.
	_, err := s.underRow(ctx, o.SKU, func(tx *gorm.DB, sale *LockedSale) (int64, error) {
		now, err := first[orders.Order](tx.Where("id = ?", o.ID), "order")
		if err != nil || !now.Status.Closed() {
			return 0, err
		}
		known, err := hasClaim(tx, o.ID, ref)
		if err != nil || known || now.Claims >= orders.MaxClaims {
			return 0, err
		}
		return 0, addClaim(tx, now, orders.NewClaim(now, ref, reason, sale.Now))
	})
	if err != nil && !errors.Is(err, orders.ErrChanged) {
		return fmt.Errorf("refund a payment of %s: %w", o.ID, err)
	}
	return nil
}

// addClaim records a refund of an order, and counts it in the order's row. So it
// writes the row that payAnew writes, too. The sale's row lock alone does not keep
// the two apart on a Galera cluster: other masters do not hear of it, and only of
// transactions that write a common row one is undone.
func addClaim(tx *gorm.DB, o *orders.Order, r *orders.Claim) error {
	counted := tx.Exec("UPDATE orders SET claims = claims + 1 WHERE id = ? AND status = ? AND claims < ?", o.ID, o.Status, orders.MaxClaims)
	if counted.Error == nil && counted.RowsAffected != 1 {
		counted.Error = orders.ErrChanged
	}
	if counted.Error != nil {
		return counted.Error
	}
	return tx.Create(r).Error
}

func hasClaim(tx *gorm.DB, id, ref string) (bool, error) {
	var n int64
	err := tx.Model(&orders.Claim{}).Where("order_id = ? AND payment_ref = ?", id, ref).Count(&n).Error
	return n > 0, err
}

// Payment tells what has become of a payment of an ended order: taken, refused
// (ErrOrderClosed with a refund, or because the order has as many as it may have;
// ErrAlreadyPaid), or not decided. It takes no lock.
//
// A payment of an order that another one has paid leaves no refund: its payer
// hears at every repetition that it was not taken, and has what was paid for.
// Owed is only who paid for an order and can no longer have it.
func (s *Store) Payment(ctx context.Context, buyer, id, ref string) (o *orders.Order, decided bool, err error) {
	if o, err = s.OrderOf(ctx, buyer, id); err != nil {
		return nil, false, err
	}
	if o.PaidBy(ref) {
		return o, true, nil
	}
	var refunds []orders.Claim
	if err := s.DB.WithContext(ctx).Where("order_id = ? AND payment_ref = ?", id, ref).Find(&refunds).Error; err != nil {
		return nil, false, fmt.Errorf("look for a refund of %s: %w", id, err)
	}
	switch {
	case len(refunds) > 0 && o.Status == orders.AwaitingPayment:
		return o, true, refunds[0].Reason.Err()
	case len(refunds) > 0:
		return o, true, orders.ErrOrderClosed
	case o.Status == orders.Paid:
		return o, true, orders.ErrAlreadyPaid
	case o.Claims >= orders.MaxClaims:
		return o, true, orders.ErrOrderClosed
	}
	return o, false, nil
}

// Claims reads a page of all refunds by order and reference. The cursor is as
// in OrdersOfBuyer.
func (s *Store) Claims(ctx context.Context, limit int, cursor string) ([]orders.Claim, string, error) {
	q := s.DB.WithContext(ctx)
	if cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		id, ref, _ := strings.Cut(string(raw), " ")
		if err != nil || !orders.IsOrderID(id) || !orders.VisibleASCII(ref, 128) {
			return nil, "", errCursor()
		}
		q = q.Where("order_id > ? OR (order_id = ? AND payment_ref > ?)", id, id, ref)
	}
	rows, next, err := page(s, q.Order("order_id, payment_ref"), limit, func(r orders.Claim) string {
		return base64.RawURLEncoding.EncodeToString([]byte(r.OrderID + " " + r.PaymentRef))
	})
	return rows, next, wrap(err, "read refunds")
}

// writeLate writes the decisions on payments that came late, and has the gate told again of
// paid orders whose end it has forgotten.
func writeLate(tx *gorm.DB, decisions []orders.Decision, now time.Time) error {
	var forgotten []string
	for _, d := range decisions {
		var err error
		switch {
		case d.Hold == orders.Reconfirm:
			forgotten = append(forgotten, d.Order.ID)
		case d.Action == orders.PayLate:
			err = payAnew(tx, d, now)
		case d.Action == orders.RecordClaim:
			err = wrap(addClaim(tx, d.Order, d.Claim), "record a claim of %s", d.Order.ID)
		}
		if err != nil {
			return err
		}
	}
	if len(forgotten) == 0 {
		return nil
	}
	err := tx.Model(&orders.Order{}).Where("id IN ?", forgotten).Updates(map[string]any{"restored_at": nil}).Error
	return wrap(err, "have %d orders confirmed again", len(forgotten))
}

// payAnew turns the order of a decision from expired or awaiting_payment into paid, in one
// conditional update. No claim may have been recorded since the order was read, by another
// master of a Galera cluster (addClaim). The gate receives the end as of every paid order,
// but the hold to be dropped is that of the attempt.
func payAnew(tx *gorm.DB, d orders.Decision, now time.Time) error {
	p, _ := orders.LateOf(d.Queued)
	r := tx.Model(&orders.Order{}).Where("id = ? AND status IN ? AND restored_at IS NOT NULL AND claims = ?", p.Order, orders.PayLateStatuses, d.Order.Claims).
		Updates(map[string]any{
			"status": orders.Paid, "payment_ref": p.Ref, "paid_at": now, "closed_at": nil, "restored_at": nil, "hold_id": d.Queued.OrderID,
		})
	if r.Error == nil && r.RowsAffected != 1 {
		r.Error = orders.ErrChanged
	}
	return wrap(r.Error, "pay order %s anew", p.Order)
}
