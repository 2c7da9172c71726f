package orders

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// Pay, Cancel and Expire are each ONE conditional update from
// pending_payment. Whichever comes first wins; the others see the row as it
// then is and say so.

// Pay marks an order of buyer as paid. The same ref again finds it paid.
// After expires_at it is too late, whether or not a sweeper has come by.
//
// Errors: ErrNotFound, ErrAlreadyPaid (with another ref), ErrOrderClosed,
// errUnheld.
func (s *Store) Pay(ctx context.Context, buyer, id, ref string) (*Order, error) {
	for {
		err := again(ctx, func() error {
			return s.db.WithContext(ctx).Model(&Order{}).
				Where("id = ? AND buyer = ? AND status = ? AND expires_at > ?", id, buyer, PendingPayment, s.now()).
				Updates(map[string]any{"status": Paid, "payment_ref": ref, "paid_at": s.now()}).Error
		})
		if err != nil {
			return nil, fmt.Errorf("pay %s: %w", id, err)
		}
		o, err := s.OrderOf(ctx, buyer, id)
		switch {
		case err != nil:
			return nil, err
		case o.paidBy(ref):
			return o, nil
		case o.Status == Paid:
			return o, ErrAlreadyPaid
		case o.Status == Unheld:
			return o, errUnheld
		case o.Status != PendingPayment:
			return o, ErrOrderClosed
		}
		// Pending, and yet not ours to pay: overdue, and the sweeper is on its
		// way. Be the sweeper, and look again: should the order not be overdue,
		// it became durable between the two statements, and can be paid.
		if _, err := s.close(ctx, o.SKU, o.Status, Expired, "id = ? AND expires_at <= ?", id, s.now()); err != nil {
			return nil, err
		}
	}
}

// Cancel closes an order of buyer. Cancelling again finds it cancelled.
//
// Errors: ErrNotFound, ErrAlreadyPaid, ErrOrderClosed (expired or rejected).
func (s *Store) Cancel(ctx context.Context, buyer, id string) (*Order, error) {
	o, err := s.OrderOf(ctx, buyer, id)
	if err != nil {
		return nil, err
	}
	if o.Status == PendingPayment || o.Status == Unheld {
		if _, err := s.close(ctx, o.SKU, o.Status, Cancelled, "id = ? AND buyer = ?", id, buyer); err != nil {
			return nil, err
		}
		if o, err = s.OrderOf(ctx, buyer, id); err != nil {
			return nil, err
		}
	}
	switch o.Status {
	case Cancelled:
		return o, nil
	case Paid:
		return o, ErrAlreadyPaid
	}
	return o, ErrOrderClosed
}

// expireBatch bounds how long one transaction of a sweeper holds a sale's row.
const expireBatch = 200

// Expire closes overdue orders, at most one batch of each SKU, and returns
// how many for each. It is safe to run on every node at once: without anything
// to do it takes no lock.
func (s *Store) Expire(ctx context.Context) (map[string]int64, error) {
	expired := map[string]int64{}
	var errs []error
	for _, from := range []Status{PendingPayment, Unheld} {
		var skus []string
		overdue := s.db.Model(&Order{}).Select("sku").
			Where("status = ? AND expires_at <= ?", from, s.now()).Order("expires_at").Limit(10 * expireBatch)
		if err := s.db.WithContext(ctx).Table("(?) AS overdue", overdue).Distinct("sku").Pluck("sku", &skus).Error; err != nil {
			return expired, errors.Join(append(errs, fmt.Errorf("look for overdue orders: %w", err))...)
		}
		for _, sku := range skus {
			n, err := s.close(ctx, sku, from, Expired, "expires_at <= ?", s.now())
			if n > 0 {
				expired[sku] += n
			}
			errs = append(errs, err)
		}
	}
	return expired, errors.Join(errs...)
}

// close moves orders of sku from pending_payment to a closed status, takes
// their units off what is sold and leaves them to be restored: restored_at
// stays empty until the keeper has given the units back to the gate. Orders that
// are unheld have no units, and were restored before.
func (s *Store) close(ctx context.Context, sku string, from, to Status, where string, args ...any) (closed int64, err error) {
	err = s.transact(ctx, func(tx *gorm.DB) error {
		sale, err := s.lockSale(tx, sku)
		if err != nil {
			return err
		}
		closed = 0
		var due []Order
		if err := tx.Select("id", "quantity").Where("sku = ? AND status = ?", sku, from).
			Where(where, args...).Limit(expireBatch).Find(&due).Error; err != nil || len(due) == 0 {
			return err
		}
		var units int64
		closed, units, err = closeEach(tx, due, from, to, sale.Now)
		if err != nil || s.unguarded || from == Unheld {
			return err
		}
		return tx.Exec("UPDATE sales SET sold = sold - ? WHERE sku = ?", units, sku).Error
	})
	if err != nil {
		return 0, fmt.Errorf("close orders of %s as %s: %w", sku, to, err)
	}
	return closed, nil
}

// closeEach closes those of the orders that are still pending, and returns how
// many those are and their units. Paying does not take the sale's row, so an
// order may be paid between being read and being closed: the condition
// decides, and only what it let through is counted.
func closeEach(tx *gorm.DB, due []Order, from, to Status, now time.Time) (closed, units int64, err error) {
	ids := make([]string, len(due))
	for i := range due {
		ids[i] = due[i].ID
		units += due[i].Quantity
	}
	r := tx.Model(&Order{}).Where("id IN ? AND status = ?", ids, from).
		Updates(map[string]any{"status": to, "closed_at": now})
	if r.Error != nil || r.RowsAffected == int64(len(due)) {
		return r.RowsAffected, units, r.Error
	}
	// Some were paid in that instant. Nobody else can have closed the others:
	// closing takes the sale's row, and that is ours.
	err = tx.Model(&Order{}).Where("id IN ? AND status = ?", ids, to).
		Select("COALESCE(SUM(quantity), 0)").Row().Scan(&units)
	return r.RowsAffected, units, err
}
