package store

import (
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/orders"
)

// TakeOver makes the caller the keeper of sku: it raises the fence and reads
// the sale in the same transaction. From here on every transaction under another
// fence is refused.
//
// A fence is the database's clock in milliseconds, or one more than the last where
// that is higher. So it is not given twice, even where the database went back and
// no longer knows of a takeover whose keeper lives.
func (s *Store) TakeOver(ctx context.Context, sku string) (*orders.Sale, error) {
	sale, err := transact(ctx, s, func(tx *gorm.DB) (*LockedSale, error) {
		now, err := s.clock(tx)
		if err != nil {
			return nil, err
		}
		ms := now.UnixMilli()
		if err := tx.Exec("UPDATE sales SET fence = CASE WHEN fence < ? THEN ? ELSE fence + 1 END, keeper = ? WHERE sku = ?", ms, ms, s.Node, sku).Error; err != nil {
			return nil, err
		}
		return s.LockSale(tx, sku)
	})
	if err != nil {
		return nil, fmt.Errorf("take over %s: %w", sku, err)
	}
	return &sale.Sale, nil
}

// A Recounted is the truth that a gate is rebuilt from.
type Recounted struct {
	Gate    inventory.View    // with the new epoch
	Changes inventory.Changes // of what the snapshot has staged
	Direct  bool              // the sale was in direct mode, until now
}

// Recount reads the truth for a rebuild of the gate, in ONE transaction under the
// keeper's fence: it issues the new epoch, ends direct mode, and reads the changes since the
// snapshot. It also marks every ended order released, because the new gate opens with the
// units of these orders. The gate, of epoch gateEpoch, must be shut and its queue drained.
//
// The caller read the sale as was before it took the snapshot. It has waited until every
// node knows that the epoch ends (see Catalog.UntilSwitch). A sale in direct mode and a
// sale that never had a gate need no wait, because no node relies on a gate of such a sale.
// Errors: ErrFenced, ErrNotAnnounced.
func (s *Store) Recount(ctx context.Context, c *Snapshot, was *orders.Sale, fence, gateEpoch int64) (*Recounted, error) {
	sku := c.sku
	r, err := transact(ctx, s, func(tx *gorm.DB) (*Recounted, error) {
		sale, err := s.lockSaleAs(tx, sku, fence)
		if err != nil {
			return nil, err
		}
		if sale.Mode != orders.ModeDirect && sale.Epoch > 0 && (sale.Mode != orders.ModeChanging || sale.Epoch != was.Epoch) {
			return nil, orders.ErrNotAnnounced
		}
		// While orders take no units the snapshot misses new ones.
		if !sale.UpdatedAt.Equal(was.UpdatedAt) {
			return nil, fmt.Errorf("%w: an operator has changed the sale since the snapshot", orders.ErrNotAnnounced)
		}
		epoch := max(sale.Epoch, gateEpoch) + 1
		if err := tx.Exec("UPDATE sales SET epoch = ?, mode = ? WHERE sku = ? AND fence = ?", epoch, orders.ModeGate, sku, fence).Error; err != nil {
			return nil, err
		}
		d, err := s.since(tx, c)
		if err != nil {
			return nil, err
		}
		// Those that were read as ended, and no others: an order that has been
		// paid since is among the holds, and the gate is to hear of it.
		for ids := range slices.Chunk(d.ended, namesInQuery) {
			c.Step()
			if err := tx.Model(&orders.Order{}).Where("id IN ?", ids).Updates(map[string]any{"restored_at": s.now()}).Error; err != nil {
				return nil, err
			}
		}
		gate := inventory.View{
			Summary: inventory.Summary{Epoch: epoch, Terms: sale.Terms(), Available: sale.Total - sale.Sold},
			Holds:   d.pending, Buyers: int64(len(c.buyers)),
		}
		for buyer := range d.Buyers {
			if !c.buyers[buyer] {
				gate.Buyers++
			}
		}
		return &Recounted{Gate: gate, Changes: d.Changes, Direct: sale.Mode == orders.ModeDirect}, nil
	})
	return r, wrap(err, "recount %s", sku)
}
