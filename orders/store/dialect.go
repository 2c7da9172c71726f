package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// This file contains the differences between MySQL, MariaDB, TiDB and SQLite. Elsewhere in
// the package, "MySQL" includes MariaDB.

// A dialect describes the database that the statements are written for.
type dialect struct {
	sqlite bool
	tidb   *atomic.Bool // set when a connection has been opened
	// sysdateIsNow is set when a connection has been opened. SYSDATE then returns the time at
	// which the statement began.
	sysdateIsNow *atomic.Bool
	rejected     *sync.Map // assignments that the server has rejected, to log each of them once
}

func newDialect(sqlite bool) dialect {
	return dialect{sqlite, new(atomic.Bool), new(atomic.Bool), new(sync.Map)}
}

// isServerError reports whether the server has answered with an error. Other errors are
// errors of the connection, and show nothing about the server.
func isServerError(err error) bool {
	_, ok := errors.AsType[*mysqldriver.MySQLError](err)
	return ok
}

// isDenied reports whether err means that the account lacks a right on a database or a table.
func isDenied(err error) bool {
	e, ok := errors.AsType[*mysqldriver.MySQLError](err)
	return ok && (e.Number == 1044 || e.Number == 1142)
}

// isUnknownVariable reports whether err means that the engine lacks a variable, or that the server
// runs with an option by which no session can change it.
func isUnknownVariable(err error) bool {
	e, ok := errors.AsType[*mysqldriver.MySQLError](err)
	return ok && (e.Number == 1193 || e.Number == 1290)
}

// enforceChecks makes TiDB enforce the CHECK constraints of tables that are created later. By
// default it ignores them. Other databases reject the statement, and so does TiDB if the
// account lacks the privilege, which flashsale doctor reports.
func enforceChecks(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "SET GLOBAL tidb_enable_check_constraint = ON")
	if isServerError(err) {
		return nil
	}
	return err
}

// indexed returns a table with an index hint.
func (d dialect) indexed(table, index string) string {
	if d.sqlite {
		return table + " INDEXED BY " + index
	}
	return table + " FORCE INDEX (" + index + ")"
}

// ordersBy returns the table orders with an index hint. Without the hint, MariaDB reads all
// orders of the SKU for a large batch of buyers, which takes 27 ms of CPU time instead of 2 ms,
// and more as the sale grows.
func (d dialect) ordersBy(index string) string { return d.indexed("orders", index) }

// ordersByKey returns the table orders with a hint to use the index by buyer and key.
func (d dialect) ordersByKey() string { return d.ordersBy("orders_key") }

// in returns the condition "(columns) IN (n tuples of width values)". If the condition were
// written with AND and OR, MariaDB might read all rows of the SKU.
func (d dialect) in(columns string, width, n int) string {
	rows := list("("+list("?", width)+")", n)
	if d.sqlite {
		rows = "VALUES " + rows
	}
	return "(" + columns + ") IN (" + rows + ")"
}

// lockRows locks and reads the rows of the SKUs, and then the database's time. Without wait
// it leaves out rows that another transaction has locked.
func (d dialect) lockRows(tx *gorm.DB, wait bool, skus ...string) (rows []LockedSale, err error) {
	lock, tidb := clause.Locking{Strength: clause.LockingStrengthUpdate}, d.tidb.Load()
	switch {
	case !wait && tidb: // TiDB accepts SKIP LOCKED, but then locks nothing
		lock.Options = clause.LockingOptionsNoWait
	case !wait:
		lock.Options = clause.LockingOptionsSkipLocked
	}
	query, separateClock := tx.Clauses(lock).Where("sku IN ?", skus), d.sqlite || tidb || d.sysdateIsNow.Load()
	if !separateClock { // MySQL evaluates SYSDATE after the wait for the row, UTC_TIMESTAMP before it
		query = query.Select("*, SYSDATE(3) AS now")
	}
	err = query.Find(&rows).Error
	if !wait && tidb && contended(err) {
		for i := 0; i < len(skus) && len(skus) > 1; i++ { // lock the free rows one by one
			row, err := d.lockRows(tx, false, skus[i])
			if err != nil {
				return nil, err
			}
			rows = append(rows, row...)
		}
		return rows, nil
	}
	if err != nil || !separateClock {
		return rows, err
	}
	now, err := d.readTime(tx)
	for i := range rows {
		rows[i].Now = now
	}
	return rows, err
}

// Error numbers of MySQL, MariaDB and TiDB.
var (
	contention = map[uint16]bool{1205: true, 1213: true, 3572: true, 9007: true} // lock wait timeout, deadlock, NOWAIT, write conflict of TiDB
	badData    = map[uint16]bool{                                                // the row can never be stored:
		1048: true, 1062: true, // null, duplicate
		1264: true, 1265: true, 1292: true, 1366: true, 1406: true, // out of range, truncated, malformed, too long
		1267: true, 1270: true, 1271: true, 3854: true, 3988: true, // characters that the column's character set lacks
		3819: true, 4025: true, // CHECK
	}
)

// readOnly contains the error numbers of a server that does not accept writes, such as a primary
// that was replaced.
var readOnly = map[uint16]bool{1290: true, 1792: true, 1836: true}

// isReadOnly reports whether err means that the server does not accept writes.
func isReadOnly(err error) bool {
	e, ok := errors.AsType[*mysqldriver.MySQLError](err)
	return ok && readOnly[e.Number]
}

// contended reports whether err means that another transaction was in the way, so a retry may
// succeed.
func contended(err error) bool {
	if e, ok := errors.AsType[*mysqldriver.MySQLError](err); ok {
		// TiDB reports error 1105, "unknown error", if a row is changed very frequently.
		return contention[e.Number] || e.Number == 1105 && strings.Contains(e.Message, "lock wait timeout")
	}
	return err != nil && strings.Contains(err.Error(), "SQLITE_BUSY")
}

// IsBadData reports whether the database rejects the data itself, so a retry cannot succeed.
func IsBadData(err error) bool {
	if e, ok := errors.AsType[*mysqldriver.MySQLError](err); ok {
		return badData[e.Number]
	}
	return err != nil && strings.Contains(err.Error(), "constraint failed")
}
