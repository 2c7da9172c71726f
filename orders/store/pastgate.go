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

// EnterDirect switches sku to direct mode, and tells whether this
// call did it. It is ONE conditional update: only a sale that has a gate, and
// only while no node whose heartbeat is younger than alive writes to the master
// that has its gate. The raised fence refuses the keeper that there was, should
// it come to; the raised epoch has the next one rebuild the gate, whatever it
// finds there.
func (s *Store) EnterDirect(ctx context.Context, sku, master string, alive time.Duration) (entered bool, err error) {
	db := s.DB.WithContext(ctx)
	now, err := s.clock(db)
	if err != nil {
		return false, fmt.Errorf("sell %s in direct mode: %w", sku, err)
	}
	err = again(ctx, func() error {
		r := db.Exec("UPDATE sales SET fence = fence + 1, epoch = epoch + 1, mode = ? WHERE sku = ? AND mode = ? AND "+noneWrites,
			orders.ModeDirect, sku, orders.ModeGate, now.Add(-alive), now.Add(alive), ","+master+",", ","+inventory.Whole+",")
		entered = r.Error == nil && r.RowsAffected == 1
		return r.Error
	})
	return entered, wrap(err, "sell %s in direct mode", sku)
}

// Direct is Commit for orders of a sale that is sold in direct mode. Who is
// refused leaves no row. Errors: orders.ErrNotDirect, inventory.ErrNotOpen,
// inventory.ErrClosed, and then nothing has happened; else the outcome is unknown.
func (s *Store) Direct(ctx context.Context, sku string, batch []inventory.Queued) ([]orders.Decision, error) {
	return s.CommitPastGate(ctx, sku, batch, PastGate, func(sale *LockedSale) error {
		if sale.Mode != orders.ModeDirect {
			return orders.ErrNotDirect
		}
		return nil
	})
}

// CommitPastGate is Commit for orders that no gate has judged: what the gate
// looks at beside the stock is looked at here, under the sale's row lock.
func (s *Store) CommitPastGate(ctx context.Context, sku string, batch []inventory.Queued, by origin, may func(*LockedSale) error) ([]orders.Decision, error) {
	verdicts, err := transact(ctx, s, func(tx *gorm.DB) ([]orders.Decision, error) {
		sale, err := s.LockSale(tx, sku)
		if err != nil {
			return nil, err
		}
		switch {
		case sale.Now.Before(sale.OpensAt):
			return nil, inventory.ErrNotOpen
		case !sale.Now.Before(sale.ClosesAt):
			return nil, inventory.ErrClosed
		}
		if err := may(sale); err != nil {
			return nil, err
		}
		for i := range batch {
			batch[i].At = sale.Now
		}
		return s.insertBatch(tx, SaleBatch{sale, sale.Fence, batch}, by)
	})
	if err == nil {
		err = s.known(ctx, verdicts)
	}
	if err != nil {
		return nil, fmt.Errorf("commit %d orders of %s without a gate: %w", len(batch), sku, err)
	}
	return verdicts, nil
}

// CommitOnPayment is Commit for orders that take no units. Who is refused leaves no row.
// Errors: orders.ErrTakesUnits, inventory.ErrNotOpen, inventory.ErrClosed, and then nothing
// has happened; else the outcome is unknown.
func (s *Store) CommitOnPayment(ctx context.Context, sku string, batch []inventory.Queued) ([]orders.Decision, error) {
	return s.CommitPastGate(ctx, sku, batch, onPayment, func(sale *LockedSale) error {
		if sale.ReserveOn != orders.OnPayment {
			return orders.ErrTakesUnits
		}
		return nil
	})
}
