package store

import (
	"context"
	"time"

	"flashsale/orders"
)

// PaidUnits returns the number of paid units by SKU: the units sold minus the units of pending
// orders. It reads only the pending orders.
func (s *Store) PaidUnits(ctx context.Context) (map[string]int64, error) {
	var rows []struct {
		SKU  string `gorm:"column:sku"`
		Paid int64
	}
	// A pending order has no restored_at. The condition lets the index find the order by sale.
	err := s.DB.WithContext(ctx).Raw(`SELECT s.sku, s.sold - COALESCE(SUM(o.quantity), 0) AS paid
		FROM sales s LEFT JOIN orders o ON o.status = ? AND o.restored_at IS NULL AND o.sku = s.sku
		GROUP BY s.sku, s.sold`, orders.PendingPayment).Scan(&rows).Error
	paid := make(map[string]int64, len(rows))
	for _, row := range rows {
		paid[row.SKU] = row.Paid
	}
	return paid, wrap(err, "read paid units")
}

// RecentClaims reads the claims that were recorded after since, newest first, up to 200.
func (s *Store) RecentClaims(ctx context.Context, since time.Time) ([]orders.Claim, error) {
	var rows []orders.Claim
	err := s.DB.WithContext(ctx).Where("created_at > ?", since).Order("created_at DESC").Limit(200).Find(&rows).Error
	return rows, wrap(err, "read recent claims")
}
