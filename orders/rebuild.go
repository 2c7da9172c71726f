package orders

import (
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"flashsale/inventory"
)

// TakeOver makes the caller the keeper of sku: it raises the fence and reads
// the sale in the same transaction. From here on every transaction under a
// lower fence is refused.
func (s *Store) TakeOver(ctx context.Context, sku string) (*Sale, error) {
	var sale *lockedSale
	err := s.transact(ctx, func(tx *gorm.DB) (err error) {
		if err := tx.Exec("UPDATE sales SET fence = fence + 1 WHERE sku = ?", sku).Error; err != nil {
			return err
		}
		sale, err = s.lockSale(tx, sku)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("take over %s: %w", sku, err)
	}
	return &sale.Sale, nil
}

// A recount is the truth that a gate is rebuilt from.
type recount struct {
	epoch   int64 // the new one
	stock   inventory.Stock
	changes inventory.Changes // of what the census has staged
	direct  bool              // the sale was on the direct way, until now
}

// Recount is the truth for a rebuild of the gate, in ONE transaction under the
// keeper's fence: it issues the new epoch, ends the direct way, reads what has
// changed since the census, and marks every ended order restored, for what is
// installed has their units in it already. The gate must be shut and its queue
// drained; gateEpoch is the one it has. Error: ErrFenced.
func (s *Store) Recount(ctx context.Context, c *census, fence, gateEpoch int64) (*recount, error) {
	sku := c.sku
	var r *recount
	err := s.transact(ctx, func(tx *gorm.DB) error {
		sale, err := s.lockSaleAs(tx, sku, fence)
		if err != nil {
			return err
		}
		epoch := max(sale.Epoch, gateEpoch) + 1
		if err := tx.Exec("UPDATE sales SET epoch = ?, mode = ? WHERE sku = ? AND fence = ?", epoch, modeGate, sku, fence).Error; err != nil {
			return err
		}
		d, err := s.since(tx, c)
		if err != nil {
			return err
		}
		// Those that were read as ended, and no others: an order that has been
		// paid since is among the holds, and the gate is to hear of it.
		for ids := range slices.Chunk(d.ended, namesInQuery) {
			if err := tx.Model(&Order{}).Where("id IN ?", ids).Updates(map[string]any{"restored_at": s.now()}).Error; err != nil {
				return err
			}
		}
		stock := inventory.Stock{Terms: sale.Terms(), Available: sale.Total - sale.Sold, Holds: d.pending, Buyers: len(c.buyers)}
		for buyer := range d.Buyers {
			if !c.buyers[buyer] {
				stock.Buyers++
			}
		}
		r = &recount{epoch: epoch, stock: stock, changes: d.Changes, direct: sale.Mode == modeDirect}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("recount %s: %w", sku, err)
	}
	return r, nil
}
