package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"flashsale/orders"
)

// Transact is transact for a function without a result. f may still be running after Transact
// has returned an error, so f and the caller must not write to the same variable.
func (s *Store) Transact(ctx context.Context, f func(tx *gorm.DB) error) error {
	_, err := transact(ctx, s, func(tx *gorm.DB) (struct{}, error) { return struct{}{}, f(tx) })
	return err
}

// transact runs f in a transaction, which it repeats if another transaction was in the way,
// and returns the result. It returns when ctx ends, even if the database does not answer the
// COMMIT. The transaction then ends with its connection's read timeout, and its outcome is
// unknown.
func transact[T any](ctx context.Context, s *Store, f func(tx *gorm.DB) (T, error)) (T, error) {
	return withRetry(ctx, s, func() (result T, err error) {
		err = s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			result, err = f(tx)
			return err
		})
		return result, err
	})
}

// onSession is transact without a transaction: all statements of f run on one session. On
// SQLite, which has only one connection, and on a pool of WithPool it only calls f.
func onSession[T any](ctx context.Context, s *Store, f func(db *gorm.DB) (T, error)) (T, error) {
	return withRetry(ctx, s, func() (none T, _ error) {
		db := s.DB.Session(&gorm.Session{NewDB: true, Context: ctx})
		if pool, ok := db.Statement.ConnPool.(*sql.DB); ok && !s.sqlite {
			session, err := pool.Conn(ctx)
			if err != nil {
				return none, err
			}
			defer func() { _ = session.Close() }()
			db.Statement.ConnPool = session
		}
		return f(db)
	})
}

// withRetry calls f with retry, and returns when ctx ends, even if f has not returned.
func withRetry[T any](ctx context.Context, s *Store, f func() (T, error)) (result T, err error) {
	err = s.retry(ctx, func() error {
		var made T
		done := make(chan error, 1)
		go func() {
			var err error
			made, err = f()
			done <- err
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

// retry calls f up to five times, as long as another transaction is in the way (contended), or
// the server does not accept writes (isReadOnly), because another server may have replaced it.
// It also repeats f if the connection was closed before the statement was sent. In all cases
// the database has undone the failed attempt.
func (s *Store) retry(ctx context.Context, f func() error) error {
	for attempt := 1; ; attempt++ {
		err := f()
		if isReadOnly(err) {
			s.closeIdle()
		}
		if err == nil || attempt == 5 || !contended(err) && !isReadOnly(err) && !errors.Is(err, driver.ErrBadConn) {
			return err
		}
		select {
		case <-time.After(rand.N(time.Duration(attempt) * 10 * time.Millisecond)):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// A LockedSale is a sale whose row is locked until the transaction ends.
type LockedSale struct {
	orders.Sale
	Now time.Time // the database's time, read after the row was locked
}

// LockSale reads the row of sku and locks it until the transaction ends. A transaction calls
// it before it touches rows of orders. Errors: ErrNotFound, and ErrUnavailable while the sale
// is being archived.
func (s *Store) LockSale(tx *gorm.DB, sku string) (*LockedSale, error) {
	sale, err := s.lockRow(tx, sku)
	if err == nil && sale.Mode == orders.ModeArchived {
		return nil, fmt.Errorf("lock sale %s: it is being moved to an archive, so it cannot change: %w", sku, orders.ErrUnavailable)
	}
	return sale, err
}

// lockKnownSale is LockSale for a sale that the caller has found before. If the sale is missing,
// the server may be a primary that was replaced, so the error is ErrUnavailable.
func (s *Store) lockKnownSale(tx *gorm.DB, sku string) (*LockedSale, error) {
	sale, err := s.LockSale(tx, sku)
	if errors.Is(err, orders.ErrNotFound) {
		err = fmt.Errorf("lock sale %s: no row, although it was found before: %w", sku, orders.ErrUnavailable)
	}
	return sale, err
}

func (s *Store) lockRow(tx *gorm.DB, sku string) (*LockedSale, error) {
	rows, err := s.lockRows(tx, true, sku)
	if err == nil && len(rows) == 0 {
		err = orders.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("lock sale %s: %w", sku, err)
	}
	return &rows[0], nil
}

// lockSaleAs is LockSale for a keeper. Error: ErrFenced if another keeper has taken over.
func (s *Store) lockSaleAs(tx *gorm.DB, sku string, fence int64) (*LockedSale, error) {
	sale, err := s.LockSale(tx, sku)
	if err == nil && sale.Fence != fence {
		return nil, fmt.Errorf("lock sale %s with fence %d: the fence is %d: %w", sku, fence, sale.Fence, orders.ErrFenced)
	}
	return sale, err
}

// sqlNow returns an SQL expression for the database's time.
func (d dialect) sqlNow() clause.Expr {
	if d.sqlite { // SQLite runs in this process and has its clock
		return gorm.Expr("?", time.Now().UTC().Truncate(time.Millisecond))
	}
	return gorm.Expr("UTC_TIMESTAMP(3)")
}

// readTime returns the database's time.
func (d dialect) readTime(tx *gorm.DB) (now time.Time, err error) {
	if d.sqlite {
		return time.Now().UTC().Truncate(time.Millisecond), nil
	}
	err = tx.Raw("SELECT UTC_TIMESTAMP(3)").Row().Scan(&now)
	return now, err
}

// wrap adds the operation to an error. It returns nil if err is nil.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// DefaultTimeout is the default of Config.Timeout.
const DefaultTimeout = 5 * time.Second
