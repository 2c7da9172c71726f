package store

import (
	"context"
	"fmt"
	"slices"

	"flashsale/inventory"
	"flashsale/orders"
)

// An Audit compares the units of a sale at the gate and in the database. Drift is 0 unless
// something is wrong. The gate and the database are read one after the other, so while orders
// are in progress, Drift may differ from 0 for a moment.
type Audit struct {
	SKU       string `json:"sku"`
	Total     int64  `json:"total"`
	Available int64  `json:"available"` // units on sale at the gate
	Queued    int64  `json:"queued"`    // units in the queue whose orders are not rows yet
	Sold      int64  `json:"sold"`      // Paid + Pending
	Paid      int64  `json:"paid"`
	Pending   int64  `json:"pending"`
	Restoring int64  `json:"restoring"`        // units of closed orders that are not marked released
	Oversold  int64  `json:"oversold"`         // units sold beyond Total
	Drift     int64  `json:"drift"`            // Total - (Available + Queued + Sold + Restoring)
	Direct    bool   `json:"direct,omitempty"` // the sale is in direct mode, and Available is computed from the rows
	Balanced  bool   `json:"balanced"`
}

// Audit reads the gate with inspect, and then the database.
func (s *Store) Audit(ctx context.Context, inspect func(ctx context.Context, sku string) (inventory.View, error), sku string) (Audit, error) {
	view, err := inspect(ctx, sku)
	if err != nil {
		return Audit{}, err
	}
	a := Audit{SKU: sku, Available: view.Available}
	if err := s.auditRows(ctx, &a, view); err != nil {
		return Audit{}, fmt.Errorf("audit %s: %w", sku, err)
	}
	a.Sold = a.Pending + a.Paid
	a.Oversold = max(0, a.Sold-a.Total)
	a.Drift = a.Total - (a.Available + a.Queued + a.Sold + a.Restoring)
	a.Balanced = a.Drift == 0 && a.Oversold == 0
	return a, nil
}

// InspectRows is the inspect function of an Audit of a sale in direct mode, which sells without
// its gate. The available units are the total, minus the sold units, minus the units of closed
// orders that are not marked released.
func (s *Store) InspectRows(ctx context.Context, sku string) (v inventory.View, err error) {
	err = s.DB.WithContext(ctx).Raw(`SELECT total - sold - (SELECT COALESCE(SUM(quantity), 0) FROM orders
		WHERE sku = ? AND status IN ? AND restored_at IS NULL) FROM sales WHERE sku = ?`, sku, orders.ClosedStatuses, sku).Scan(&v.Available).Error
	return v, wrap(err, "read unsold units of %s", sku)
}

func (s *Store) auditRows(ctx context.Context, a *Audit, view inventory.View) error {
	sale, err := s.Sale(ctx, a.SKU)
	if err != nil {
		return err
	}
	a.Total = sale.Total

	// The queue was read before the rows. An order that is in both counts as a row.
	for queued := range slices.Chunk(view.Orders, 1000) {
		ids := make([]string, len(queued))
		for i, q := range queued {
			ids[i] = q.OrderID
		}
		byHold, err := s.OrdersByHold(ctx, ids)
		if err != nil {
			return err
		}
		for _, q := range queued {
			if byHold[q.OrderID] == nil {
				a.Queued += q.Quantity
			}
		}
	}

	var sums []struct {
		Status     orders.Status
		Unreleased bool
		Units      int64
	}
	if err := s.DB.WithContext(ctx).Model(&orders.Order{}).Where("sku = ?", a.SKU).Group("status, restored_at IS NULL").
		Select("status, restored_at IS NULL AS unreleased, SUM(quantity) AS units").Scan(&sums).Error; err != nil {
		return err
	}
	for _, sum := range sums {
		switch {
		case sum.Status == orders.PendingPayment:
			a.Pending += sum.Units
		case sum.Status == orders.Paid:
			a.Paid += sum.Units
		case sum.Unreleased:
			a.Restoring += sum.Units
		}
	}
	return nil
}
