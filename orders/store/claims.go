package store

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"gorm.io/gorm"

	"flashsale/orders"
)

// RecordClaim records a refund claim for a payment of o. It does nothing if the order is no
// longer closed, if the claim exists, or if the order has MaxClaims claims.
func (s *Store) RecordClaim(ctx context.Context, o *orders.Order, ref string, reason orders.Reason) error {
	err := s.recordClaim(ctx, *orders.NewClaim(o, ref, reason, time.Time{}))
	if errors.Is(err, orders.ErrChanged) {
		return nil
	}
	return err
}

// recordClaim is RecordClaim for a claim whose CreatedAt is not set yet. It does nothing if the payment
// has paid the order, or if the order is still open and the reason is not AmountMismatch. It returns
// ErrChanged if another transaction has changed the order meanwhile.
func (s *Store) recordClaim(ctx context.Context, claim orders.Claim) error {
	// Under the row lock, the keeper cannot pay the order meanwhile. For a Galera cluster see
	// addClaim.
	_, err := s.withLockedSale(ctx, claim.SKU, func(tx *gorm.DB, sale *LockedSale) (int64, error) {
		now, err := first[orders.Order](tx.Where("id = ?", claim.OrderID), "order")
		if err != nil || now.PaidBy(claim.PaymentRef) || !now.Status.Closed() && claim.Reason != orders.AmountMismatch {
			return 0, err
		}
		known, err := hasClaim(tx, claim.OrderID, claim.PaymentRef)
		if err != nil || known || now.Claims >= orders.MaxClaims {
			return 0, err
		}
		dated := claim
		dated.CreatedAt = sale.Now
		return 0, addClaim(tx, now, &dated)
	})
	return wrap(err, "record a claim of %s", claim.OrderID)
}

// RefuseCharge refuses a payment of an order of buyer if its charge does not match the order, and
// returns nil and no error if it matches. It records a claim for the amount that was charged, although
// the order may stay open, unless the same reference has paid the order. If the order has no row yet,
// the error is ErrNotFound, and the caller must not pay: the keeper could commit the order before Pay
// runs, and its amount would never be compared. Errors: ErrNotFound, ErrAmountMismatch,
// ErrUnavailable.
func (s *Store) RefuseCharge(ctx context.Context, buyer, id, ref string, c orders.Charge) (*orders.Order, error) {
	for c != (orders.Charge{}) {
		o, err := readOrderOf(s.DB.WithContext(ctx), buyer, id)
		if errors.Is(err, orders.ErrNotFound) {
			o, err = s.OrderOf(ctx, buyer, id)
		}
		if err != nil {
			return nil, err
		}
		if c.Matches(o) {
			break
		}
		claim := orders.NewClaim(o, ref, orders.AmountMismatch, time.Time{})
		if c.Amount != nil {
			claim.Amount = *c.Amount
		}
		if c.Currency != nil {
			claim.Currency = *c.Currency
		}
		err = s.recordClaim(ctx, *claim)
		if errors.Is(err, orders.ErrChanged) {
			continue
		}
		decided := false
		if err == nil {
			o, decided, err = s.Payment(ctx, buyer, id, ref) // makes the claim durable if it was only read
		}
		if decided {
			err = orders.ErrAmountMismatch
		}
		if err != nil {
			return o, err
		}
	}
	return nil, nil
}

// addClaim records a claim and counts it in the order's row. markPaid writes the same row. On a
// Galera cluster, a row lock is local to one master, so the lock of the sale's row does not
// separate the two. The cluster rolls back one of them because both write the order's row.
func addClaim(tx *gorm.DB, o *orders.Order, claim *orders.Claim) error {
	counted := tx.Exec("UPDATE orders SET claims = claims + 1, change_no = NULL WHERE id = ? AND status = ? AND claims < ?", o.ID, o.Status, orders.MaxClaims)
	if counted.Error == nil && counted.RowsAffected != 1 {
		counted.Error = orders.ErrChanged
	}
	if counted.Error != nil {
		return counted.Error
	}
	return tx.Create(claim).Error
}

func hasClaim(tx *gorm.DB, id, ref string) (bool, error) {
	var n int64
	err := tx.Model(&orders.Claim{}).Where("order_id = ? AND payment_ref = ?", id, ref).Count(&n).Error
	return n > 0, err
}

// Payment returns an order and reports whether the payment ref is already decided. If the payment was
// refused, err is the refusal. Payment takes no lock, and its answer is durable (see durably).
// The refusals are:
//
//   - ErrAlreadyPaid if another payment has paid the order. There is no claim.
//   - the reason of the payment's claim if the charge did not match the order, or the order awaits
//     payment
//   - ErrClaimed for any other claim of the payment
//   - ErrOrderClosed if the order has MaxClaims claims of other payments
func (s *Store) Payment(ctx context.Context, buyer, id, ref string) (_ *orders.Order, decided bool, err error) {
	type rows struct {
		order  *orders.Order
		claims []orders.Claim
	}
	found, err := durably(ctx, s, orderLane, func(db *gorm.DB) (r rows, err error) {
		if r.order, err = readOrderOf(db, buyer, id); err != nil {
			return r, err
		}
		err = db.Where("order_id = ? AND payment_ref = ?", id, ref).Find(&r.claims).Error
		return r, wrap(err, "read claims of %s", id)
	})
	o, claims := found.order, found.claims
	switch {
	case err != nil:
		return nil, false, err
	case o.PaidBy(ref):
		return o, true, nil
	case o.Voided() && *o.PaymentRef == ref: // the reason of the claim is the operator's text, and no refusal
		return o, true, orders.ErrClaimed
	case len(claims) > 0 && (o.Status == orders.AwaitingPayment || claims[0].Reason == orders.AmountMismatch):
		return o, true, claims[0].Reason.Err()
	case len(claims) > 0:
		return o, true, orders.ErrClaimed
	case o.Status == orders.Paid:
		return o, true, orders.ErrAlreadyPaid
	case o.Claims >= orders.MaxClaims:
		return o, true, orders.ErrOrderClosed
	}
	return o, false, nil
}

// Claims reads a page of all claims, ordered by order and reference. For the cursor see
// OrdersOfBuyer.
func (s *Store) Claims(ctx context.Context, limit int, cursor string) ([]orders.Claim, string, error) {
	after := func(db *gorm.DB) *gorm.DB { return db }
	if cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		id, ref, _ := strings.Cut(string(raw), " ")
		if err != nil || !orders.IsOrderID(id) || !orders.VisibleASCII(ref, 128) {
			return nil, "", errCursor()
		}
		after = func(db *gorm.DB) *gorm.DB {
			return db.Where("order_id > ? OR (order_id = ? AND payment_ref > ?)", id, id, ref)
		}
	}
	rows, next, err := page(ctx, s, limit, func(db *gorm.DB) *gorm.DB { return after(db).Order("order_id, payment_ref") }, func(r orders.Claim) string {
		return base64.RawURLEncoding.EncodeToString([]byte(r.OrderID + " " + r.PaymentRef))
	})
	return rows, next, wrap(err, "read claims")
}

// writePayments writes the decisions on payments. If the hold of a paid order has reappeared
// (DropHoldAgain), it clears restored_at, so the keeper drops the hold again.
func writePayments(tx *gorm.DB, decisions []orders.Decision, now time.Time) error {
	var reconfirm []string
	for _, d := range decisions {
		var err error
		switch {
		case d.Hold == orders.DropHoldAgain:
			reconfirm = append(reconfirm, d.Order.ID)
		case d.Action == orders.MarkPaid:
			err = markPaid(tx, d, now)
		case d.Action == orders.RecordClaim:
			err = wrap(addClaim(tx, d.Order, d.Claim), "record a claim of %s", d.Order.ID)
		}
		if err != nil {
			return err
		}
	}
	if len(reconfirm) == 0 {
		return nil
	}
	err := tx.Model(&orders.Order{}).Where("id IN ?", reconfirm).Updates(map[string]any{"restored_at": nil}).Error
	return wrap(err, "clear restored_at of %d paid orders", len(reconfirm))
}

// markPaid changes the order of a decision from expired or awaiting_payment to paid, in one
// conditional update. The update fails if a claim was recorded since the order was read
// (addClaim). The keeper later drops the hold that the payment took at the gate (hold_id).
func markPaid(tx *gorm.DB, d orders.Decision, now time.Time) error {
	p, _ := orders.PaymentOf(d.Queued)
	r := tx.Model(&orders.Order{}).Where("id = ? AND status IN ? AND restored_at IS NOT NULL AND claims = ?", p.OrderID, orders.MustTakeUnitsStatuses, d.Order.Claims).
		Updates(map[string]any{
			"status": orders.Paid, "payment_ref": p.Ref, "paid_at": now, "closed_at": nil, "restored_at": nil, "hold_id": d.Queued.OrderID, "change_no": nil,
		})
	if r.Error == nil && r.RowsAffected != 1 {
		r.Error = orders.ErrChanged
	}
	return wrap(r.Error, "take the units of order %s and pay it", p.OrderID)
}
