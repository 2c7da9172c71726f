package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
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
	err = again(ctx, func() error {
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

// again does f again when the database chose it as the victim of a deadlock:
// then nothing of it has happened.
func again(ctx context.Context, f func() error) error {
	for attempt := 1; ; attempt++ {
		err := f()
		if err == nil || attempt == 5 || !contended(err) {
			return err
		}
		pause := time.NewTimer(rand.N(time.Duration(attempt) * 10 * time.Millisecond))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
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
// ends. Everybody who will touch rows in orders takes it first.
func (s *Store) LockSale(tx *gorm.DB, sku string) (*LockedSale, error) {
	query := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Where("sku = ?", sku)
	if !s.sqlite { // SYSDATE is read after the wait for the row, UTC_TIMESTAMP would be before
		query = query.Select("*, SYSDATE(3) AS now")
	}
	sale, err := take[LockedSale](query, "and lock sale "+sku)
	if err == nil && s.sqlite { // the database's clock is this process's
		sale.Now = time.Now().UTC().Truncate(time.Millisecond)
	}
	return sale, err
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
func (s *Store) now() clause.Expr {
	if s.sqlite { // the database's clock is this process's
		return gorm.Expr("?", time.Now().UTC().Truncate(time.Millisecond))
	}
	return gorm.Expr("UTC_TIMESTAMP(3)")
}

// clock reads the database's clock.
func (s *Store) clock(tx *gorm.DB) (time.Time, error) {
	if s.sqlite {
		return time.Now().UTC().Truncate(time.Millisecond), nil
	}
	var now time.Time
	err := tx.Raw("SELECT UTC_TIMESTAMP(3)").Row().Scan(&now)
	return now, err
}

// Error numbers of MySQL and MariaDB.
var (
	contention = map[uint16]bool{1205: true, 1213: true, 3572: true} // lock wait, deadlock, NOWAIT
	badData    = map[uint16]bool{                                    // this row will never go in:
		1048: true, 1062: true, // null, duplicate
		1264: true, 1265: true, 1292: true, 1366: true, 1406: true, // out of range, cut off, malformed, too long
		1267: true, 1270: true, 1271: true, 3854: true, 3988: true, // characters that the column's character set lacks
		3819: true, 4025: true, // CHECK
	}
)

// contended tells whether err only means that another transaction was in the way.
func contended(err error) bool {
	var e *mysqldriver.MySQLError
	if errors.As(err, &e) {
		return contention[e.Number]
	}
	return err != nil && strings.Contains(err.Error(), "SQLITE_BUSY")
}

// IsBadData tells whether the database refuses the data itself: trying again
// is of no use.
func IsBadData(err error) bool {
	var e *mysqldriver.MySQLError
	if errors.As(err, &e) {
		return badData[e.Number]
	}
	return err != nil && strings.Contains(err.Error(), "constraint failed")
}

// wrap says in an error what was being done. It is nil for nil.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// Timeout bounds what is asked of a store beside waiting for a keeper: one
// that neither answers nor fails must not hold anybody for ever.
const Timeout = 5 * time.Second
