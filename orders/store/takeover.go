package store

import (
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/orders"
)

// TakeOver makes the caller the keeper of sku. It raises the fence and reads the sale in one
// transaction. From then on, every transaction with another fence is refused.
//
// The new fence is the database's time in milliseconds, or the old fence plus 1 if that is
// higher. Therefore no fence is issued twice, even if a failover of the database has lost a
// takeover whose keeper is still running.
func (s *Store) TakeOver(ctx context.Context, sku string) (*orders.Sale, error) {
	sale, err := transact(ctx, s, func(tx *gorm.DB) (*LockedSale, error) {
		now, err := s.readTime(tx)
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

// GateData is the data for a new gate.
type GateData struct {
	Gate    inventory.View    // the new gate, with the new epoch
	Changes inventory.Changes // changes since the snapshot
	Direct  bool              // the sale was in direct mode before
}

// BeginEpoch issues a new epoch, in ONE transaction under the keeper's fence. It ends direct
// mode, and reads the data for the new gate: the sums and the changes since the snapshot. It
// also marks every ended order released, because the new gate opens with the units of these
// orders. The old gate, of epoch gateEpoch, must be shut and its queue empty.
//
// Before the call: read the sale (old), take the snapshot, and wait until every node knows that
// the epoch ends (see Catalog.UntilSwitch). In direct mode and before the first gate no wait is
// needed, because no node relies on a gate.
// Errors: ErrFenced, ErrNotAnnounced.
func (s *Store) BeginEpoch(ctx context.Context, snap *Snapshot, old *orders.Sale, fence, gateEpoch int64) (*GateData, error) {
	sku := snap.sku
	r, err := transact(ctx, s, func(tx *gorm.DB) (*GateData, error) {
		sale, err := s.lockSaleAs(tx, sku, fence)
		if err != nil {
			return nil, err
		}
		if sale.Mode != orders.ModeDirect && sale.Epoch > 0 && (sale.Mode != orders.ModeChanging || sale.Epoch != old.Epoch) {
			return nil, orders.ErrNotAnnounced
		}
		// The snapshot lacks the buyers of orders without units that were made after it. If the
		// sale now takes units on order, the new gate would refuse replays of these orders.
		if !sale.UpdatedAt.Equal(old.UpdatedAt) {
			return nil, fmt.Errorf("%w: an operator has changed the sale since the snapshot", orders.ErrNotAnnounced)
		}
		epoch := max(sale.Epoch, gateEpoch) + 1
		if err := tx.Exec("UPDATE sales SET epoch = ?, mode = ? WHERE sku = ? AND fence = ?", epoch, orders.ModeGate, sku, fence).Error; err != nil {
			return nil, err
		}
		d, err := s.changesSince(tx, snap)
		if err != nil {
			return nil, err
		}
		// Mark only the orders that had ended when their rows were read. An order that is paid
		// later has a hold in the new gate, and the keeper must still drop this hold.
		for ids := range slices.Chunk(d.unmarked, namesInQuery) {
			snap.Step()
			if err := tx.Model(&orders.Order{}).Where("id IN ?", ids).Updates(map[string]any{"restored_at": s.sqlNow()}).Error; err != nil {
				return nil, err
			}
		}
		gate := inventory.View{
			Summary: inventory.Summary{Epoch: epoch, Terms: sale.Terms(), Available: sale.Total - sale.Sold},
			Holds:   d.pending, Buyers: int64(len(snap.buyers)),
		}
		for buyer := range d.Buyers {
			if !snap.buyers[buyer] {
				gate.Buyers++
			}
		}
		return &GateData{Gate: gate, Changes: d.Changes, Direct: sale.Mode == orders.ModeDirect}, nil
	})
	return r, wrap(err, "begin an epoch of %s", sku)
}
