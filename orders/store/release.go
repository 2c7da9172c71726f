package store

import (
	"context"

	"gorm.io/gorm"

	"flashsale/orders"
)

// An UnreleasedOrder is a closed or paid order whose hold may still be at the gate.
type UnreleasedOrder struct {
	ID     string
	HoldID *string // hold of the payment that took the units and paid the order, or nil
	Status orders.Status
	Epoch  int64 // epoch of the sale, read in the same statement
}

// UnreleasedOrders returns up to limit ended orders of sku that are not marked released. It leaves
// out the orders that were taken back (notVoided).
func (s *Store) UnreleasedOrders(ctx context.Context, sku string, limit int) ([]UnreleasedOrder, error) {
	var rows []UnreleasedOrder
	err := s.DB.WithContext(ctx).Table("orders AS o").Select("o.id, o.hold_id, o.status, s.epoch").
		Joins("JOIN sales AS s ON s.sku = o.sku").
		Where("o.status IN ? AND o.restored_at IS NULL AND o.sku = ? AND "+notVoided, orders.NoHoldStatuses, sku).
		Limit(limit).Scan(&rows).Error
	return rows, wrap(err, "read ended orders of %s", sku)
}

// MarkOrdersReleased marks orders released. The caller must have the gate's answer that their holds
// are gone. It skips orders that were taken back meanwhile (notVoided). Repeating the call changes
// nothing. Error: ErrFenced.
func (s *Store) MarkOrdersReleased(ctx context.Context, sku string, fence int64, ids []string) error {
	err := s.Transact(ctx, func(tx *gorm.DB) error {
		if _, err := s.lockSaleAs(tx, sku, fence); err != nil {
			return err
		}
		return tx.Model(&orders.Order{}).Where("id IN ? AND restored_at IS NULL AND "+notVoided, ids).
			Updates(map[string]any{"restored_at": s.sqlNow()}).Error
	})
	return wrap(err, "mark %d orders of %s released", len(ids), sku)
}
