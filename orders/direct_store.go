package orders

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"flashsale/inventory"
)

// How a sale is sold: sales.mode.
const (
	modeGate   = "gate"
	modeDirect = "direct"
)

// errNotDirect refuses a direct order of a sale that has a gate.
var errNotDirect = errors.New("orders: the sale is not sold the direct way")

// noneReaches picks sales only while no node seen since a time reaches Redis.
const noneReaches = "NOT EXISTS (SELECT 1 FROM nodes WHERE redis = ? AND seen_at > ?)"

// EnterDirect has sku sold the direct way from now on, and tells whether this
// call did it. It is ONE conditional update: only a sale that has a gate, and
// only while no node whose heartbeat is younger than alive says that it reaches
// Redis. The raised fence refuses the keeper that there was, should it come to;
// the raised epoch has the next one rebuild the gate, whatever it finds there.
func (s *Store) EnterDirect(ctx context.Context, sku string, alive time.Duration) (entered bool, err error) {
	db := s.db.WithContext(ctx)
	now, err := s.clock(db)
	if err != nil {
		return false, fmt.Errorf("sell %s the direct way: %w", sku, err)
	}
	err = again(ctx, func() error {
		r := db.Exec("UPDATE sales SET fence = fence + 1, epoch = epoch + 1, mode = ? WHERE sku = ? AND mode = ? AND "+noneReaches,
			modeDirect, sku, modeGate, true, now.Add(-alive))
		entered = r.RowsAffected == 1
		return r.Error
	})
	if err != nil {
		return false, fmt.Errorf("sell %s the direct way: %w", sku, err)
	}
	return entered, nil
}

// redisReached tells whether any node that is alive says that it reaches Redis.
func (s *Store) redisReached(ctx context.Context, alive time.Duration) (bool, error) {
	db := s.db.WithContext(ctx)
	now, err := s.clock(db)
	var n int64
	if err == nil {
		err = db.Model(&heartbeat{}).Where("redis = ? AND seen_at > ?", true, now.Add(-alive)).Count(&n).Error
	}
	if err != nil {
		return false, fmt.Errorf("look who reaches Redis: %w", err)
	}
	return n > 0, nil
}

// Direct is Commit for orders of a sale that is sold the direct way. Who is
// refused leaves no row. Errors: errNotDirect, inventory.ErrNotOpen,
// inventory.ErrClosed, and then nothing has happened; else the outcome is unknown.
func (s *Store) Direct(ctx context.Context, sku string, batch []inventory.Queued) ([]verdict, error) {
	return s.commitUngated(ctx, sku, batch, ungated, func(sale *lockedSale) error {
		if sale.Mode != modeDirect {
			return errNotDirect
		}
		return nil
	})
}

// commitUngated is Commit for orders that no gate has judged: what the gate
// looks at beside the stock is looked at here, under the sale's row lock.
func (s *Store) commitUngated(ctx context.Context, sku string, batch []inventory.Queued, by way, may func(*lockedSale) error) (verdicts []verdict, err error) {
	err = s.transact(ctx, func(tx *gorm.DB) error {
		sale, err := s.lockSale(tx, sku)
		if err != nil {
			return err
		}
		switch {
		case sale.Now.Before(sale.OpensAt):
			return inventory.ErrNotOpen
		case !sale.Now.Before(sale.ClosesAt):
			return inventory.ErrClosed
		}
		if err := may(sale); err != nil {
			return err
		}
		for i := range batch {
			batch[i].At = sale.Now
		}
		verdicts, err = s.carryOne(tx, share{sale, sale.Fence, batch}, by)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("commit %d orders of %s without a gate: %w", len(batch), sku, err)
	}
	return verdicts, nil
}
