package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync/atomic"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// What differs between MySQL, MariaDB, TiDB and SQLite stands here. All but TiDB
// and SQLite are "MySQL" below.

// A dialect is which database the statements are for.
type dialect struct {
	sqlite bool
	tidb   *atomic.Bool // known once a connection has been opened
}

// readCommitted sets the isolation level of every session: with REPEATABLE
// READ the keeper would judge by what stood before it had the sale's row. The
// statement is the one that MySQL and MariaDB both know.
type readCommitted struct {
	driver.Connector
	tidb *atomic.Bool
}

func (c readCommitted) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	set := func(variable string) error {
		_, err := conn.(driver.ExecerContext).ExecContext(ctx, "SET SESSION "+variable, nil)
		return err
	}
	err = set("TRANSACTION ISOLATION LEVEL READ COMMITTED")
	if err == nil {
		// TiDB alone has this variable. A transaction that takes no locks would sell
		// under an old fence, and find out at its COMMIT.
		if err = set("tidb_txn_mode = 'pessimistic'"); err == nil || refused(err) { // a broken connection does not say
			c.tidb.Store(err == nil)
		}
	}
	if refused(err) {
		// Left to itself the server looks up each of a batch's buyers twice, once to
		// guess how many rows there are: 3 µs an order. Of a few values it must guess
		// so: by its averages as many orders wait to be restored as are pending, and
		// it would read all of them to find none. A database that has no such
		// variable does without.
		if err = set("eq_range_index_dive_limit = 10"); refused(err) {
			err = nil
		}
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// refused tells whether the server has answered with an error of its own.
func refused(err error) bool {
	_, ok := errors.AsType[*mysqldriver.MySQLError](err)
	return ok
}

// enforceChecks has TiDB keep the CHECKs of tables that are created from now on: by
// default it reads over them. Other databases refuse that, and so does TiDB where the
// account may not: flashsale doctor says so.
func enforceChecks(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "SET GLOBAL tidb_enable_check_constraint = ON")
	if refused(err) {
		return nil
	}
	return err
}

// ordersBy is the orders table, read by that index. Left to itself MariaDB rather
// reads all orders of the SKU for a large batch of buyers: 27 ms of its CPU instead
// of 2, and growing with the sale.
func (d dialect) ordersBy(index string) string {
	if d.sqlite {
		return "orders INDEXED BY " + index
	}
	return "orders FORCE INDEX (" + index + ")"
}

// ordersByKey is the orders table, read by its index of buyers and keys.
func (d dialect) ordersByKey() string { return d.ordersBy("orders_key") }

// in is a condition that picks n rows by the values of some columns. It is a row
// constructor: of columns = ? AND … OR … MariaDB may read all rows of the SKU.
func (d dialect) in(columns string, width, n int) string {
	rows := list("("+list("?", width)+")", n)
	if d.sqlite {
		rows = "VALUES " + rows
	}
	return "(" + columns + ") IN (" + rows + ")"
}

// lockRows locks the rows of these SKUs, and reads them and then the database's
// clock. Without wait it leaves out those that somebody else has locked.
func (d dialect) lockRows(tx *gorm.DB, wait bool, skus ...string) (rows []LockedSale, err error) {
	lock, tidb := clause.Locking{Strength: clause.LockingStrengthUpdate}, d.tidb.Load()
	switch {
	case !wait && tidb: // it takes SKIP LOCKED, and then locks nothing at all
		lock.Options = clause.LockingOptionsNoWait
	case !wait:
		lock.Options = clause.LockingOptionsSkipLocked
	}
	query, apart := tx.Clauses(lock).Where("sku IN ?", skus), d.sqlite || tidb
	if !apart { // SYSDATE is read after the wait for the row, UTC_TIMESTAMP would be before; of TiDB's, neither is sure
		query = query.Select("*, SYSDATE(3) AS now")
	}
	err = query.Find(&rows).Error
	if !wait && tidb && contended(err) {
		for i := 0; i < len(skus) && len(skus) > 1; i++ { // those that are free, one by one
			row, err := d.lockRows(tx, false, skus[i])
			if err != nil {
				return nil, err
			}
			rows = append(rows, row...)
		}
		return rows, nil
	}
	if err != nil || !apart {
		return rows, err
	}
	now, err := d.clock(tx)
	for i := range rows {
		rows[i].Now = now
	}
	return rows, err
}

// Error numbers of MySQL, MariaDB and TiDB.
var (
	contention = map[uint16]bool{1205: true, 1213: true, 3572: true, 9007: true} // lock wait, deadlock, NOWAIT, TiDB's write conflict
	badData    = map[uint16]bool{                                                // this row will never go in:
		1048: true, 1062: true, // null, duplicate
		1264: true, 1265: true, 1292: true, 1366: true, 1406: true, // out of range, cut off, malformed, too long
		1267: true, 1270: true, 1271: true, 3854: true, 3988: true, // characters that the column's character set lacks
		3819: true, 4025: true, // CHECK
	}
)

// contended tells whether err only means that another transaction was in the way.
func contended(err error) bool {
	if e, ok := errors.AsType[*mysqldriver.MySQLError](err); ok {
		// The second is TiDB's, for a row that others change again and again: "unknown error".
		return contention[e.Number] || e.Number == 1105 && strings.Contains(e.Message, "lock wait timeout")
	}
	return err != nil && strings.Contains(err.Error(), "SQLITE_BUSY")
}

// IsBadData tells whether the database refuses the data itself: trying again
// is of no use.
func IsBadData(err error) bool {
	if e, ok := errors.AsType[*mysqldriver.MySQLError](err); ok {
		return badData[e.Number]
	}
	return err != nil && strings.Contains(err.Error(), "constraint failed")
}
