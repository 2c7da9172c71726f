package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"flashsale/orders"
)

// PutSale creates or changes a sale, and returns the row as it was written. The UpdatedAt of a
// new sale is its CreatedAt. A change of ReserveOn (default OnOrder) does not affect existing
// orders, whose status shows whether they have units. Errors: *InvalidError, *BelowSoldError,
// ErrPrecondition.
func (s *Store) PutSale(ctx context.Context, sale orders.Sale, conditions ...orders.Precondition) (orders.Sale, error) {
	if sale.ReserveOn == "" {
		sale.ReserveOn = orders.OnOrder
	}
	if err := sale.Validate(); err != nil {
		return sale, err
	}
	sale.OpensAt, sale.ClosesAt = sale.OpensAt.UTC().Truncate(time.Millisecond), sale.ClosesAt.UTC().Truncate(time.Millisecond)
	put := func(tx *gorm.DB) (orders.Sale, error) {
		old, err := s.lockSaleIf(tx, sale.SKU, conditions)
		if errors.Is(err, orders.ErrNotFound) {
			return s.createSale(tx, sale)
		}
		if err != nil {
			return sale, err
		}
		if sale.Total < old.Sold {
			return sale, &orders.BelowSoldError{Sold: old.Sold}
		}
		next := sale
		next.Sold, next.Fence, next.Keeper, next.CreatedAt = old.Sold, old.Fence, old.Keeper, old.CreatedAt
		next.Epoch, next.Mode, next.ReserveFrom = old.Epoch, old.Mode, old.ReserveFrom
		// The gate does not know orders without units, so a change of ReserveOn needs a new
		// gate. A sale that is over has no gate, so it needs one as well.
		if next.ReserveOn != old.ReserveOn || old.Mode == orders.ModeOver {
			next.Announce()
		}
		if next.ReserveOn != old.ReserveOn {
			next.ReserveFrom = next.Epoch
			if next.Mode == orders.ModeChanging {
				next.ReserveFrom++
			}
		}
		return writeSale(tx, old, next)
	}
	changed, err := transact(ctx, s, put)
	if IsBadData(err) { // another node has created the sale at the same time
		changed, err = transact(ctx, s, put)
	}
	return changed, wrap(err, "put sale %s", sale.SKU)
}

func (s *Store) createSale(tx *gorm.DB, sale orders.Sale) (orders.Sale, error) {
	now, err := s.readTime(tx)
	if err != nil {
		return sale, err
	}
	sale.Sold, sale.Fence, sale.Keeper, sale.Epoch, sale.Mode, sale.ReserveFrom = 0, 0, "", 0, orders.ModeGate, 0
	sale.CreatedAt, sale.UpdatedAt = now, now
	return sale, tx.Create(&sale).Error
}

// EndSale ends a sale now, by the database's clock, and returns it. If the sale has not opened
// yet, OpensAt becomes one second ago. If the sale has ended before, nothing changes. Errors:
// ErrNotFound, ErrPrecondition.
func (s *Store) EndSale(ctx context.Context, sku string, conditions ...orders.Precondition) (orders.Sale, error) {
	closed, err := transact(ctx, s, func(tx *gorm.DB) (orders.Sale, error) {
		old, err := s.lockSaleIf(tx, sku, conditions)
		if err != nil {
			return orders.Sale{}, err
		}
		next := old.Sale
		if !old.Now.Before(old.ClosesAt) {
			return next, nil
		}
		next.ClosesAt = old.Now
		if !next.OpensAt.Before(old.Now) {
			next.OpensAt = old.Now.Add(-time.Second)
		}
		return writeSale(tx, old, next)
	})
	return closed, wrap(err, "end sale %s", sku)
}

// lockSaleIf is LockSale with a check of the preconditions, also for a missing sale.
func (s *Store) lockSaleIf(tx *gorm.DB, sku string, conditions []orders.Precondition) (*LockedSale, error) {
	sale, err := s.LockSale(tx, sku)
	var found *orders.Sale
	if err == nil {
		found = &sale.Sale
	} else if !errors.Is(err, orders.ErrNotFound) {
		return nil, err
	}
	for _, isMet := range conditions {
		if !isMet(found) {
			return nil, orders.ErrPrecondition
		}
	}
	return sale, err
}

// writeSale writes an operator's change of a sale whose row is locked. UpdatedAt is the version,
// so it increases even if two changes happen within one millisecond.
func writeSale(tx *gorm.DB, old *LockedSale, next orders.Sale) (orders.Sale, error) {
	next.UpdatedAt = old.Now
	if !next.UpdatedAt.After(old.UpdatedAt) {
		next.UpdatedAt = old.UpdatedAt.Add(time.Millisecond)
	}
	if err := tx.Select("*").Updates(&next).Error; err != nil {
		return next, err
	}
	return next, tx.Exec("UPDATE sales SET change_no = NULL WHERE sku = ?", next.SKU).Error
}

// Sale reads one sale. Error: ErrNotFound.
func (s *Store) Sale(ctx context.Context, sku string) (*orders.Sale, error) {
	return first[orders.Sale](s.DB.WithContext(ctx).Where("sku = ? AND mode <> ?", sku, orders.ModeArchived), "sale "+sku)
}

// listedFor is the time after its end for which a sale in ModeOver is still listed.
const listedFor = 24 * time.Hour

// Sales reads the listed sales, and the database's time. A sale that is being archived is not
// listed.
func (s *Store) Sales(ctx context.Context) ([]orders.Sale, time.Time, error) {
	return s.sales(s.DB.WithContext(ctx))
}

func (s *Store) sales(db *gorm.DB) ([]orders.Sale, time.Time, error) {
	now, err := s.readTime(db)
	if err != nil {
		return nil, now, fmt.Errorf("read the database's clock: %w", err)
	}
	var sales []orders.Sale
	err = listed(db, now).Order("opens_at DESC, sku").Find(&sales).Error
	return sales, now, wrap(err, "read sales")
}

func listed(db *gorm.DB, now time.Time) *gorm.DB {
	return db.Where("mode NOT IN ? OR mode = ? AND closes_at > ?", []string{orders.ModeOver, orders.ModeArchived}, orders.ModeOver, now.Add(-listedFor))
}

// SalesPage reads a page of the sales by SKU. With over, the page contains all sales, and without
// it only the listed sales. For the cursor see OrdersOfBuyer.
func (s *Store) SalesPage(ctx context.Context, over bool, limit int, cursor string) ([]orders.Sale, string, error) {
	if cursor != "" && !orders.IsSKU(cursor) {
		return nil, "", errCursor()
	}
	now, err := s.readTime(s.DB.WithContext(ctx))
	if err != nil {
		return nil, "", fmt.Errorf("read the database's clock: %w", err)
	}
	sales, next, err := page(ctx, s, limit, func(db *gorm.DB) *gorm.DB {
		if db = db.Where("sku > ? AND mode <> ?", cursor, orders.ModeArchived); !over {
			db = listed(db, now)
		}
		return db.Order("sku")
	}, func(sale orders.Sale) string { return sale.SKU })
	return sales, next, wrap(err, "read a page of sales")
}

// sameModes reports whether the database has the same sales as known, with the same epochs, fences
// and modes. It ignores sales that are over, and reads four columns instead of whole rows.
func sameModes(db *gorm.DB, known map[string]*orders.Sale) (same bool, err error) {
	missing := 0
	for _, sale := range known {
		if sale.Mode != orders.ModeOver {
			missing++
		}
	}
	rows, err := db.Raw("SELECT sku, epoch, fence, mode FROM sales WHERE mode IN ?",
		[]string{orders.ModeGate, orders.ModeChanging, orders.ModeDirect}).Rows()
	if err != nil {
		return false, fmt.Errorf("compare the sales with their copy: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var sku, mode sql.RawBytes
	var epoch, fence int64
	same = true
	for rows.Next() && same {
		if err := rows.Scan(&sku, &epoch, &fence, &mode); err != nil {
			return false, err
		}
		sale := known[string(sku)]
		same = sale != nil && sale.Epoch == epoch && sale.Fence == fence && sale.Mode == string(mode)
		missing--
	}
	return same && missing == 0, rows.Err()
}

// Announce announces the end of that epoch (orders.ModeChanging). If the end is announced
// already, or the sale has another epoch, it changes nothing.
func (s *Store) Announce(ctx context.Context, sku string, epoch int64) error {
	err := s.retry(ctx, func() error {
		return s.DB.WithContext(ctx).Exec("UPDATE sales SET mode = ? WHERE sku = ? AND epoch = ? AND mode = ?",
			orders.ModeChanging, sku, epoch, orders.ModeGate).Error
	})
	return wrap(err, "announce a new epoch of %s", sku)
}

// RequestRebuild requests a rebuild of the gate of sku: it announces the end of the epoch. It
// returns the present epoch. The rebuilt gate has a higher epoch.
func (s *Store) RequestRebuild(ctx context.Context, sku string) (int64, error) {
	epoch, err := transact(ctx, s, func(tx *gorm.DB) (int64, error) {
		sale, err := s.LockSale(tx, sku)
		if err != nil {
			return 0, err
		}
		sale.Announce()
		return sale.Epoch, tx.Exec("UPDATE sales SET mode = ? WHERE sku = ?", sale.Mode, sku).Error
	})
	return epoch, wrap(err, "request a rebuild of %s", sku)
}

// MarkOver sets ModeOver for a sale whose gate is gone from Redis, and reports whether it did.
// If the sale has not ended, or has open orders (HasOpenOrders), it changes nothing, and the
// keeper must rebuild the gate. Error: ErrFenced.
func (s *Store) MarkOver(ctx context.Context, sku string, fence int64) (over bool, err error) {
	over, err = transact(ctx, s, func(tx *gorm.DB) (bool, error) {
		sale, err := s.lockSaleAs(tx, sku, fence)
		if err != nil {
			return false, err
		}
		open, err := s.HasOpenOrders(tx, sku)
		if err != nil || open || sale.Now.Before(sale.ClosesAt) {
			return false, err
		}
		return true, tx.Exec("UPDATE sales SET mode = ? WHERE sku = ? AND fence = ?", orders.ModeOver, sku, fence).Error
	})
	return over, wrap(err, "mark %s over", sku)
}

// HasOpenOrders reports whether sku has orders that can still be paid, or that are not marked
// released.
func (s *Store) HasOpenOrders(db *gorm.DB, sku string) (bool, error) {
	var one []string
	err := db.Model(&orders.Order{}).
		Where("sku = ? AND (status = ? OR status IN ? AND restored_at IS NULL)", sku, orders.AwaitingPayment, slices.Concat(orders.SoldStatuses, orders.ClosedStatuses)).
		Limit(1).Pluck("sku", &one).Error
	return len(one) > 0, err
}
