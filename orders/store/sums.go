package store

import (
	"context"
	"fmt"
	"slices"

	"flashsale/orders"
)

// Sums are what the database says of a sale's units, read in one statement:
// closing an order moves units from Sold to Restoring and never shows half.
type Sums struct {
	Sold      int64 // pending and paid
	Restoring int64 // of closed orders that the gate has not been told of
	Fence     int64
	Epoch     int64
}

// Sums reads them.
func (s *Store) Sums(ctx context.Context, sku string) (sums Sums, err error) {
	restoring := s.DB.Model(&orders.Order{}).Select("COALESCE(SUM(quantity), 0)").
		Where("sku = ? AND status IN ? AND restored_at IS NULL", sku, orders.ClosedStatuses)
	err = s.DB.WithContext(ctx).Model(&orders.Sale{}).Select("sold, fence, epoch, (?) AS restoring", restoring).
		Where("sku = ?", sku).Take(&sums).Error
	return sums, wrap(err, "sums of %s", sku)
}

// Behind reads the orders that stand behind holds at the gate, by hold: the
// order's own id, or that of the attempt to pay it late.
func (s *Store) Behind(ctx context.Context, holds []string) (map[string]*orders.Order, error) {
	ids := make([]string, len(holds))
	for i, hold := range holds {
		ids[i] = orders.OrderOf(hold)
	}
	var rows []orders.Order
	if err := s.DB.WithContext(ctx).Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read the orders behind %d holds: %w", len(holds), err)
	}
	byID := make(map[string]*orders.Order, len(rows))
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	behind := make(map[string]*orders.Order, len(holds))
	for i, hold := range holds {
		if o := byID[ids[i]]; o != nil && (o.ID == hold || o.HoldID != nil && *o.HoldID == hold) {
			behind[hold] = o
		}
	}
	return behind, nil
}

// Counting reads those orders of these buyers whose units count at the gate: the
// open ones, and those that it does not know the end of.
func (s *Store) Counting(ctx context.Context, sku string, buyers []string) ([]orders.Order, error) {
	var rows []orders.Order
	err := s.DB.WithContext(ctx).Table(s.ordersByKey()).Select(ledgerColumns).
		Where("sku = ? AND buyer IN ? AND (status IN ? OR restored_at IS NULL)", sku, buyers, orders.OpenStatuses).Find(&rows).Error
	return rows, wrap(err, "read open orders of %d buyers of %s", len(buyers), sku)
}

// BuyersAfter reads the next buyers that have ever had an order of sku: those
// of the next limit orders by buyer. False: there are no more. It reads the
// index in order and stops: to make the buyers distinct, the server would read
// all that are left, for each page.
func (s *Store) BuyersAfter(ctx context.Context, sku, after string, limit int) (buyers []string, more bool, err error) {
	err = s.DB.WithContext(ctx).Table(s.ordersByKey()).Where("sku = ? AND buyer > ?", sku, after).
		Order("buyer").Limit(limit).Pluck("buyer", &buyers).Error
	if err != nil {
		return nil, false, fmt.Errorf("read buyers of %s: %w", sku, err)
	}
	return slices.Compact(buyers), len(buyers) == limit, nil
}

// EndedSKUs returns the SKUs that have orders for Unreleased.
func (s *Store) EndedSKUs(ctx context.Context) ([]string, error) {
	var skus []string
	err := s.DB.WithContext(ctx).Model(&orders.Order{}).Distinct("sku").
		Where("status IN ? AND restored_at IS NULL", orders.FinalStatuses).
		Pluck("sku", &skus).Error
	return skus, wrap(err, "look for ended orders")
}
