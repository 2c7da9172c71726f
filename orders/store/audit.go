package store

import (
	"context"
	"fmt"
	"slices"

	"flashsale/inventory"
	"flashsale/orders"
)

// An Audit is the law of conservation, read now: what the gate has, what is on
// its way, what is sold. Numbers of a sale in motion are a snapshot of two
// stores that are read one after the other.
type Audit struct {
	SKU       string `json:"sku"`
	Total     int64  `json:"total"`
	Available int64  `json:"available"` // at the gate
	Queued    int64  `json:"queued"`    // reserved at the gate and not yet rows
	Sold      int64  `json:"sold"`      // units of pending_payment and paid rows
	Paid      int64  `json:"paid"`
	Pending   int64  `json:"pending"`
	Restoring int64  `json:"restoring"` // closed in the database and not yet back at the gate
	Oversold  int64  `json:"oversold"`
	Drift     int64  `json:"drift"`
	Balanced  bool   `json:"balanced"`
}

// Audit reads the gate, which look does in one script, then the database.
func (s *Store) Audit(ctx context.Context, look func(ctx context.Context, sku string) (inventory.View, error), sku string) (Audit, error) {
	view, err := look(ctx, sku)
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

// Unsold is look for a sale in direct mode, which has no gate: what the database
// has not sold is available, except units that are on their way back.
func (s *Store) Unsold(ctx context.Context, sku string) (v inventory.View, err error) {
	err = s.DB.WithContext(ctx).Raw(`SELECT total - sold - (SELECT COALESCE(SUM(quantity), 0) FROM orders
		WHERE sku = ? AND status IN ? AND restored_at IS NULL) FROM sales WHERE sku = ?`, sku, orders.ClosedStatuses, sku).Scan(&v.Available).Error
	return v, wrap(err, "units of %s that are not sold", sku)
}

func (s *Store) auditRows(ctx context.Context, a *Audit, view inventory.View) error {
	sale, err := s.Sale(ctx, a.SKU)
	if err != nil {
		return err
	}
	a.Total = sale.Total

	// The queue is read before the rows. An order that became a row in between
	// is in both and counts as a row.
	for queued := range slices.Chunk(view.Orders, 1000) {
		ids := make([]string, len(queued))
		for i, q := range queued {
			ids[i] = q.OrderID
		}
		behind, err := s.Behind(ctx, ids)
		if err != nil {
			return err
		}
		for _, q := range queued {
			if behind[q.OrderID] == nil {
				a.Queued += q.Quantity
			}
		}
	}

	var sums []struct {
		Status orders.Status
		Open   bool // not yet told to the gate
		Units  int64
	}
	if err := s.DB.WithContext(ctx).Model(&orders.Order{}).Where("sku = ?", a.SKU).Group("status, restored_at IS NULL").
		Select("status, restored_at IS NULL AS open, SUM(quantity) AS units").Scan(&sums).Error; err != nil {
		return err
	}
	for _, sum := range sums {
		switch {
		case sum.Status == orders.PendingPayment:
			a.Pending += sum.Units
		case sum.Status == orders.Paid:
			a.Paid += sum.Units
		case sum.Open:
			a.Restoring += sum.Units
		}
	}
	return nil
}
