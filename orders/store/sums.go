package store

import (
	"context"
	"fmt"
	"slices"

	"flashsale/orders"
)

// Sums are the units of a sale in the database. They are read in one statement, so an order
// that is being closed counts either in Sold or in Unreleased.
type Sums struct {
	Sold       int64 // units of pending and paid orders
	Unreleased int64 // units of closed orders that are not marked released
	Fence      int64
	Epoch      int64
}

// Sums reads the sums of sku.
func (s *Store) Sums(ctx context.Context, sku string) (sums Sums, err error) {
	unreleased := s.DB.Model(&orders.Order{}).Select("COALESCE(SUM(quantity), 0)").
		Where("sku = ? AND status IN ? AND restored_at IS NULL", sku, orders.ClosedStatuses)
	err = s.DB.WithContext(ctx).Model(&orders.Sale{}).Select("sold, fence, epoch, (?) AS unreleased", unreleased).
		Where("sku = ?", sku).Take(&sums).Error
	return sums, wrap(err, "read sums of %s", sku)
}

// OrdersByHold reads the orders that own holds at the gate, and returns them by hold. An order
// owns the hold with its id, and the hold of the Payment that paid it.
func (s *Store) OrdersByHold(ctx context.Context, holds []string) (map[string]*orders.Order, error) {
	ids := make([]string, len(holds))
	for i, hold := range holds {
		ids[i] = orders.OrderOf(hold)
	}
	var rows []orders.Order
	if err := s.DB.WithContext(ctx).Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read orders of %d holds: %w", len(holds), err)
	}
	byID := make(map[string]*orders.Order, len(rows))
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	byHold := make(map[string]*orders.Order, len(holds))
	for i, hold := range holds {
		if o := byID[ids[i]]; o != nil && (o.ID == hold || o.HoldID != nil && *o.HoldID == hold) {
			byHold[hold] = o
		}
	}
	return byHold, nil
}

// OrdersAtGate reads the orders of these buyers whose units count at the gate: open orders, and
// orders that are not marked released.
func (s *Store) OrdersAtGate(ctx context.Context, sku string, buyers []string) ([]orders.Order, error) {
	var rows []orders.Order
	err := s.DB.WithContext(ctx).Table(s.ordersByKey()).Select(ledgerColumns).
		Where("sku = ? AND buyer IN ? AND (status IN ? OR restored_at IS NULL)", sku, buyers, orders.SoldStatuses).Find(&rows).Error
	return rows, wrap(err, "read open orders of %d buyers of %s", len(buyers), sku)
}

// BuyersAfter returns the next buyers of sku, sorted, whose names are greater than after. It
// reads limit orders, of any status. more is false if there were fewer. The query has no
// DISTINCT, because the server would then read all remaining orders for each page.
func (s *Store) BuyersAfter(ctx context.Context, sku, after string, limit int) (buyers []string, more bool, err error) {
	err = s.DB.WithContext(ctx).Table(s.ordersByKey()).Where("sku = ? AND buyer > ?", sku, after).
		Order("buyer").Limit(limit).Pluck("buyer", &buyers).Error
	if err != nil {
		return nil, false, fmt.Errorf("read buyers of %s: %w", sku, err)
	}
	return slices.Compact(buyers), len(buyers) == limit, nil
}

// EndedSKUs returns the SKUs for which UnreleasedOrders returns orders.
func (s *Store) EndedSKUs(ctx context.Context) ([]string, error) {
	var skus []string
	err := s.DB.WithContext(ctx).Model(&orders.Order{}).Distinct("sku").
		Where("status IN ? AND restored_at IS NULL AND "+notVoided, orders.NoHoldStatuses).
		Pluck("sku", &skus).Error
	return skus, wrap(err, "read SKUs of ended orders")
}
