package store

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/orders"
)

// noneWrites is the condition that no live node can write to a Redis master.
const noneWrites = "NOT EXISTS (SELECT 1 FROM nodes WHERE seen_at > ? AND seen_at < ? AND INSTR(unwritable, ?) = 0 AND INSTR(unwritable, ?) = 0)"

// EnterDirect switches sku to direct mode, and reports whether this call did it. The caller
// must have announced the end of the epoch and waited (see Catalog.UntilSwitch).
//
// EnterDirect is ONE conditional update. The announcement must still be in the row, and no node
// with a heartbeat within alive may be able to write to the master that has the gate. The
// update raises the fence, so a keeper that wakes up late cannot commit, and the epoch, so
// orders of the old gate cannot be committed.
func (s *Store) EnterDirect(ctx context.Context, sku string, epoch int64, master string, alive time.Duration) (entered bool, err error) {
	db := s.DB.WithContext(ctx)
	now, err := s.readTime(db)
	if err != nil {
		return false, fmt.Errorf("enter direct mode of %s: %w", sku, err)
	}
	err = s.retry(ctx, func() error {
		r := db.Exec("UPDATE sales SET fence = fence + 1, epoch = epoch + 1, mode = ? WHERE sku = ? AND mode = ? AND epoch = ? AND "+noneWrites,
			orders.ModeDirect, sku, orders.ModeChanging, epoch, now.Add(-alive), now.Add(alive), ","+master+",", ","+inventory.Standalone+",")
		entered = r.Error == nil && r.RowsAffected == 1
		return r.Error
	})
	return entered, wrap(err, "enter direct mode of %s", sku)
}

// CommitDirect is Commit for orders of a sale in direct mode. A refused order leaves no row. If the
// error is orders.ErrNotDirect, nothing was changed. After any other error the outcome is
// unknown.
func (s *Store) CommitDirect(ctx context.Context, sku string, batch []inventory.QueuedOrder) ([]orders.Decision, error) {
	return s.CommitWithoutGate(ctx, sku, batch, DirectMode, orders.ErrNotDirect, func(sale *LockedSale) bool { return sale.Mode == orders.ModeDirect })
}

// CommitWithoutGate is Commit for orders that no gate has accepted. It checks the sale's time
// window, as a gate does. If allowed returns false for the locked sale, CommitWithoutGate changes
// nothing and returns the error otherwise.
func (s *Store) CommitWithoutGate(ctx context.Context, sku string, batch []inventory.QueuedOrder, via origin, otherwise error, allowed func(*LockedSale) bool) ([]orders.Decision, error) {
	decisions, err := s.decideDurably(ctx, func(tx *gorm.DB) ([][]orders.Decision, error) {
		sale, err := s.lockKnownSale(tx, sku)
		if err == nil && !allowed(sale) {
			err = otherwise
		}
		if err != nil {
			return nil, err
		}
		for i := range batch {
			batch[i].AcceptedAt = sale.Now
		}
		one := LockedBatch{Sale: sale, fence: sale.Fence, Orders: batch}
		switch {
		case sale.Now.Before(sale.OpensAt):
			one.window = orders.NotOpen
		case !sale.Now.Before(sale.ClosesAt):
			one.window = orders.Closed
		}
		return s.decideAndWrite(tx, []LockedBatch{one}, via)
	})
	if err != nil {
		return nil, fmt.Errorf("commit %d orders of %s without a gate: %w", len(batch), sku, err)
	}
	return decisions[0], nil
}

// CommitOnPayment is Commit for orders that take no units. A refused order leaves no row. If
// the error is orders.ErrTakesUnits, nothing was changed. After any other error the outcome is
// unknown.
func (s *Store) CommitOnPayment(ctx context.Context, sku string, batch []inventory.QueuedOrder) ([]orders.Decision, error) {
	return s.CommitWithoutGate(ctx, sku, batch, onPayment, orders.ErrTakesUnits, func(sale *LockedSale) bool { return sale.TakesOnPayment() })
}
