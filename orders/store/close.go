package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"flashsale/orders"
)

// Pay, Cancel and Expire change a status by ONE update, which names the old status in its WHERE.
// Of concurrent updates, only one matches the row. Cancel and Expire also lock the sale's row,
// because they subtract units from sales.sold.

// Pay marks an order of buyer as paid. If the same ref has paid it before, Pay returns the
// order. After expires_at Pay refuses the payment, even if no sweeper has run since.
//
// A payment with a claim is refused (see Payment), also while the order is pending.
//
// Errors: ErrNotFound, ErrAlreadyPaid (with another ref), ErrOrderClosed, ErrAmountMismatch,
// ErrHoldsNone.
func (s *Store) Pay(ctx context.Context, buyer, id, ref string) (*orders.Order, error) {
	claims := int64(0) // number of claims of the order, none of which is for ref
	for {
		won := false
		err := s.retry(ctx, func() error {
			r := s.DB.WithContext(ctx).Model(&orders.Order{}).
				Where("id = ? AND buyer = ? AND status = ? AND expires_at > ? AND claims = ?", id, buyer, orders.PendingPayment, s.sqlNow(), claims).
				Updates(map[string]any{"status": orders.Paid, "payment_ref": ref, "paid_at": s.sqlNow(), "change_no": nil})
			won = r.RowsAffected > 0
			return r.Error
		})
		if err != nil {
			return nil, fmt.Errorf("pay %s: %w", id, err)
		}
		o, err := s.orderAfter(ctx, won, orders.Paid, buyer, id)
		switch {
		case err != nil:
			return nil, err
		case o.PaidBy(ref):
			return o, nil
		case o.Status == orders.Paid:
			return o, orders.ErrAlreadyPaid
		case o.Status == orders.AwaitingPayment:
			return o, orders.ErrHoldsNone
		case o.Status != orders.PendingPayment:
			return o, orders.ErrOrderClosed
		case o.Claims != claims:
			o, decided, err := s.Payment(ctx, buyer, id, ref)
			if decided || err != nil {
				return o, err
			}
			claims = o.Claims
			continue
		}
		// The order is pending, but the update did not find it. If it is overdue, expire it
		// as the sweeper does. Otherwise it was inserted after the update and can be paid.
		if _, err := s.closeOrders(ctx, o.SKU, o.Status, orders.Expired, "id = ?", id); err != nil {
			return nil, err
		}
	}
}

// Cancel cancels an order of buyer. If the order is cancelled already, Cancel returns it.
//
// Errors: ErrNotFound, ErrAlreadyPaid, ErrOrderClosed (expired or rejected).
func (s *Store) Cancel(ctx context.Context, buyer, id string) (*orders.Order, error) {
	open := func(o *orders.Order) bool {
		return o.Status == orders.PendingPayment || o.Status == orders.AwaitingPayment
	}
	o, err := readOrderOf(s.DB.WithContext(ctx), buyer, id)
	if errors.Is(err, orders.ErrNotFound) || err == nil && !open(o) {
		o, err = s.OrderOf(ctx, buyer, id)
	}
	if err != nil {
		return nil, err
	}
	if open(o) {
		won, err := s.closeOrders(ctx, o.SKU, o.Status, orders.Cancelled, "id = ? AND buyer = ?", id, buyer)
		if err != nil {
			return nil, err
		}
		if o, err = s.orderAfter(ctx, won > 0, orders.Cancelled, buyer, id); err != nil {
			return nil, err
		}
	}
	switch o.Status {
	case orders.Cancelled:
		return o, nil
	case orders.Paid:
		return o, orders.ErrAlreadyPaid
	}
	return o, orders.ErrOrderClosed
}

// expireBatch is the maximum number of orders that one transaction closes. It limits the time
// for which a sweeper locks a sale's row.
const expireBatch = 200

// Expire closes overdue orders, up to expireBatch of each SKU, and returns the number of
// orders by SKU. All nodes may call it at the same time. If no order is overdue, it takes no
// lock. It spends at most a tenth of Timeout on one sale, whose row may be locked; the next
// sweep tries again.
func (s *Store) Expire(ctx context.Context) (map[string]int64, error) {
	expired := map[string]int64{}
	var errs []error
	for _, from := range orders.ExpiringStatuses {
		var skus []string
		overdue := s.DB.Model(&orders.Order{}).Select("sku").
			Where("status = ? AND expires_at <= ?", from, s.sqlNow()).Order("expires_at").Limit(10 * expireBatch)
		if err := s.DB.WithContext(ctx).Table("(?) AS overdue", overdue).Distinct("sku").Pluck("sku", &skus).Error; err != nil {
			return expired, errors.Join(append(errs, fmt.Errorf("look for overdue orders: %w", err))...)
		}
		for _, sku := range skus {
			within, cancel := context.WithTimeout(ctx, s.Timeout/10)
			n, err := s.closeOrders(within, sku, from, orders.Expired, "")
			cancel()
			if n > 0 {
				expired[sku] += n
			}
			errs = append(errs, err)
		}
	}
	return expired, errors.Join(errs...)
}

// closeOrders changes orders of sku that match where from one status to a closed one, and subtracts
// their units from sales.sold. Orders expire only if they are overdue at sale.Now, which
// becomes closed_at. restored_at stays empty until the keeper has released the units. Orders
// that await payment have no units and count as released.
func (s *Store) closeOrders(ctx context.Context, sku string, from, to orders.Status, where string, args ...any) (int64, error) {
	closed, err := s.withLockedSale(ctx, sku, func(tx *gorm.DB, sale *LockedSale) (int64, error) {
		matching := tx.Where("sku = ? AND status = ?", sku, from).Where(where, args...)
		if to == orders.Expired {
			matching = matching.Where("expires_at <= ?", sale.Now)
		}
		var due []orders.Order
		if err := matching.Select("id", "quantity").Limit(expireBatch).Find(&due).Error; err != nil || len(due) == 0 {
			return 0, err
		}
		closed, units, err := closeEach(tx, due, from, to, sale.Now)
		if err != nil || from == orders.AwaitingPayment {
			return closed, err
		}
		return closed, tx.Exec("UPDATE sales SET sold = sold - ? WHERE sku = ?", units, sku).Error
	})
	return closed, wrap(err, "close orders of %s as %s", sku, to)
}

// closeEach closes the orders that still have the status from, and returns their number and
// units. A payment does not lock the sale's row, so an order may have been paid since it was
// read. The condition of the update decides.
func closeEach(tx *gorm.DB, due []orders.Order, from, to orders.Status, now time.Time) (closed, units int64, err error) {
	ids := make([]string, len(due))
	for i := range due {
		ids[i] = due[i].ID
		units += due[i].Quantity
	}
	r := tx.Model(&orders.Order{}).Where("id IN ? AND status = ?", ids, from).
		Updates(map[string]any{"status": to, "closed_at": now, "change_no": nil})
	if r.Error != nil || r.RowsAffected == int64(len(due)) {
		return r.RowsAffected, units, r.Error
	}
	// Some of the orders were paid after they were read. Orders are closed only under the lock
	// of the sale's row, so the orders with the status to were closed here.
	err = tx.Model(&orders.Order{}).Where("id IN ? AND status = ?", ids, to).
		Select("COALESCE(SUM(quantity), 0)").Row().Scan(&units)
	return r.RowsAffected, units, err
}
