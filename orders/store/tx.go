package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"flashsale/orders"
)

// Transact is transact for what has no result. f and the caller must not both write
// to a variable: f may go on after Transact has returned.
func (s *Store) Transact(ctx context.Context, f func(tx *gorm.DB) error) error {
	_, err := transact(ctx, s, func(tx *gorm.DB) (struct{}, error) { return struct{}{}, f(tx) })
	return err
}

// transact runs f in one transaction, again if need be, and returns its result, which
// is zero with an error. It ends with ctx, also while the database does not answer a
// COMMIT, which knows no context: the transaction is then left to itself until its
// connection's read timeout, and its outcome is unknown.
func transact[T any](ctx context.Context, s *Store, f func(tx *gorm.DB) (T, error)) (result T, err error) {
	err = retryContended(ctx, func() error {
		var made T
		done := make(chan error, 1)
		go func() {
			done <- s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) (err error) {
				made, err = f(tx)
				return err
			})
		}()
		select {
		case err := <-done:
			if err == nil {
				result = made
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return result, err
}

// retryContended repeats f if another transaction was in the way. Nothing of the failed attempt
// has then happened.
func retryContended(ctx context.Context, f func() error) error {
	for attempt := 1; ; attempt++ {
		err := f()
		if err == nil || attempt == 5 || !contended(err) {
			return err
		}
		select {
		case <-time.After(rand.N(time.Duration(attempt) * 10 * time.Millisecond)):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// A LockedSale is a sale's row, locked until the transaction ends, and the
// database's clock once it was.
type LockedSale struct {
	orders.Sale
	Now time.Time
}

// LockSale reads the row of sku and keeps it locked until the transaction
// ends. Everybody who will touch rows in orders takes it first. Errors: ErrNotFound,
// and ErrUnavailable while the sale is being archived.
func (s *Store) LockSale(tx *gorm.DB, sku string) (*LockedSale, error) {
	sale, err := s.lockRow(tx, sku)
	if err == nil && sale.Mode == orders.ModeArchived {
		return nil, fmt.Errorf("sale %s is being moved to an archive: %w", sku, orders.ErrUnavailable)
	}
	return sale, err
}

func (s *Store) lockRow(tx *gorm.DB, sku string) (*LockedSale, error) {
	rows, err := s.lockRows(tx, true, sku)
	if err == nil && len(rows) == 0 {
		err = orders.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read and lock sale %s: %w", sku, err)
	}
	return &rows[0], nil
}

// lockSaleAs is LockSale for a keeper: ErrFenced when another one took over.
func (s *Store) lockSaleAs(tx *gorm.DB, sku string, fence int64) (*LockedSale, error) {
	sale, err := s.LockSale(tx, sku)
	if err == nil && sale.Fence != fence {
		return nil, fmt.Errorf("keep %s with fence %d, now %d: %w", sku, fence, sale.Fence, orders.ErrFenced)
	}
	return sale, err
}

// now is the database's clock, in an expression or comparison.
func (d dialect) now() clause.Expr {
	if d.sqlite { // the database's clock is this process's
		return gorm.Expr("?", time.Now().UTC().Truncate(time.Millisecond))
	}
	return gorm.Expr("UTC_TIMESTAMP(3)")
}

// clock reads the database's clock.
func (d dialect) clock(tx *gorm.DB) (now time.Time, err error) {
	if d.sqlite {
		return time.Now().UTC().Truncate(time.Millisecond), nil
	}
	err = tx.Raw("SELECT UTC_TIMESTAMP(3)").Row().Scan(&now)
	return now, err
}

// wrap says in an error what was being done. It is nil for nil.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// DefaultTimeout is the default of Config.Timeout.
const DefaultTimeout = 5 * time.Second
