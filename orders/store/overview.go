package store

import (
	"context"
	"time"

	"flashsale/orders"
)

// PaidUnits reads how many units of each sale are paid: those that are sold, less
// those of orders that wait for payment. It reads these orders, and no others.
func (s *Store) PaidUnits(ctx context.Context) (map[string]int64, error) {
	var rows []struct {
		SKU  string `gorm:"column:sku"`
		Paid int64
	}
	// Each pending order's restored_at is empty: with it the index finds them by sale.
	err := s.DB.WithContext(ctx).Raw(`SELECT s.sku, s.sold - COALESCE(SUM(o.quantity), 0) AS paid
		FROM sales s LEFT JOIN orders o ON o.status = ? AND o.restored_at IS NULL AND o.sku = s.sku
		GROUP BY s.sku, s.sold`, orders.PendingPayment).Scan(&rows).Error
	paid := make(map[string]int64, len(rows))
	for _, row := range rows {
		paid[row.SKU] = row.Paid
	}
	return paid, wrap(err, "read paid units")
}

// RecentClaims reads the refunds that were recorded since, the newest first, at
// most 200.
func (s *Store) RecentClaims(ctx context.Context, since time.Time) ([]orders.Claim, error) {
	var rows []orders.Claim
	err := s.DB.WithContext(ctx).Where("created_at > ?", since).Order("created_at DESC").Limit(200).Find(&rows).Error
	return rows, wrap(err, "read recent refunds")
}
