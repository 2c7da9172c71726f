package store

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/orders"
)

// noneWrites picks sales only while no node that is alive writes to a master.
const noneWrites = "NOT EXISTS (SELECT 1 FROM nodes WHERE seen_at > ? AND seen_at < ? AND INSTR(unwritable, ?) = 0 AND INSTR(unwritable, ?) = 0)"

// EnterDirect switches sku to direct mode, and reports whether this call did it. The
// caller has announced the end of that epoch, and has waited (see Catalog.UntilSwitch).
//
// EnterDirect is ONE conditional update. The announcement must still be in the row, and no
// node whose heartbeat is younger than alive may write to the master that has the gate. The
// update raises the fence, which refuses a keeper that wakes up late, and the epoch, which
// refuses the orders of the old gate.
func (s *Store) EnterDirect(ctx context.Context, sku string, epoch int64, master string, alive time.Duration) (entered bool, err error) {
	db := s.DB.WithContext(ctx)
	now, err := s.clock(db)
	if err != nil {
		return false, fmt.Errorf("sell %s in direct mode: %w", sku, err)
	}
	err = retryContended(ctx, func() error {
		r := db.Exec("UPDATE sales SET fence = fence + 1, epoch = epoch + 1, mode = ? WHERE sku = ? AND mode = ? AND epoch = ? AND "+noneWrites,
			orders.ModeDirect, sku, orders.ModeChanging, epoch, now.Add(-alive), now.Add(alive), ","+master+",", ","+inventory.Standalone+",")
		entered = r.Error == nil && r.RowsAffected == 1
		return r.Error
	})
	return entered, wrap(err, "sell %s in direct mode", sku)
}

// Direct is Commit for orders of a sale that is sold in direct mode. A refused order
// leaves no row. After orders.ErrNotDirect nothing has happened; after any other error
// the outcome is unknown.
func (s *Store) Direct(ctx context.Context, sku string, batch []inventory.Queued) ([]orders.Decision, error) {
	return s.CommitPastGate(ctx, sku, batch, PastGate, orders.ErrNotDirect, func(sale *LockedSale) bool { return sale.Mode == orders.ModeDirect })
}

// CommitPastGate is Commit for orders that were not accepted by a gate. The sale's
// window, which a gate checks, is checked here, under the sale's row lock. If may returns
// false for the locked sale, nothing happens, and CommitPastGate returns otherwise.
func (s *Store) CommitPastGate(ctx context.Context, sku string, batch []inventory.Queued, by origin, otherwise error, may func(*LockedSale) bool) ([]orders.Decision, error) {
	decisions, err := transact(ctx, s, func(tx *gorm.DB) ([]orders.Decision, error) {
		sale, err := s.LockSale(tx, sku)
		if err == nil && !may(sale) {
			err = otherwise
		}
		if err != nil {
			return nil, err
		}
		for i := range batch {
			batch[i].At = sale.Now
		}
		one := SaleBatch{Sale: sale, fence: sale.Fence, Orders: batch}
		switch {
		case sale.Now.Before(sale.OpensAt):
			one.window = orders.NotOpen
		case !sale.Now.Before(sale.ClosesAt):
			one.window = orders.Closed
		}
		return s.insertBatch(tx, one, by)
	})
	if err == nil {
		err = s.confirm(ctx, decisions)
	}
	if err != nil {
		return nil, fmt.Errorf("commit %d orders of %s without a gate: %w", len(batch), sku, err)
	}
	return decisions, nil
}

// CommitOnPayment is Commit for orders that take no units. A refused order leaves no
// row. After orders.ErrTakesUnits nothing has happened; after any other error the outcome
// is unknown.
func (s *Store) CommitOnPayment(ctx context.Context, sku string, batch []inventory.Queued) ([]orders.Decision, error) {
	return s.CommitPastGate(ctx, sku, batch, onPayment, orders.ErrTakesUnits, func(sale *LockedSale) bool { return sale.TakesOnPayment() })
}
