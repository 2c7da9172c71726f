package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/internal/kit"
)

// With any defaults of the server, LockSale locks the row, and each statement of a transaction
// reads what was committed before the statement.
func TestTransactionsAreReadCommittedAndLock(t *testing.T) {
	dsn := servertest.OpenSQL(t, servers.KindReal)
	first := openStore(t, dsn)
	kit.PutSale(t, first, kit.Sale("S", 1, 1))
	kit.PutSale(t, first, kit.Sale("T", 1, 1))
	defaults := func(mode string) { _ = first.DB.Exec("SET GLOBAL tidb_txn_mode = ?", mode) } // MySQL does not know it
	defaults("optimistic")
	defer defaults("pessimistic")
	store, err := Open(dsn, Config{})
	check.Must(t, err)
	t.Cleanup(func() { _ = store.Close() })

	check.Must(t, store.Transact(t.Context(), func(tx *gorm.DB) error {
		fence := func() (n int) {
			check.OK(t, tx.Raw("SELECT fence FROM sales WHERE sku = 'T'").Scan(&n).Error)
			return n
		}
		if n := fence(); n != 0 {
			t.Errorf("fence of T: got %d, want 0", n)
		}
		if _, err := store.LockSale(tx, "S"); err != nil {
			return err
		}
		err := store.DB.Transaction(func(other *gorm.DB) error {
			return other.Exec("SELECT sku FROM sales WHERE sku = 'S' FOR UPDATE NOWAIT").Error
		})
		if !contended(err) {
			t.Errorf("second lock of the row: got error %v, want a contention", err)
		}
		kit.Exec(t, store.DB, "UPDATE sales SET fence = 7 WHERE sku = 'T'")
		if n := fence(); n != 7 {
			t.Errorf("fence of T after a change by another transaction: got %d, want 7", n)
		}
		return nil
	}))
}

// With REPEATABLE READ, InnoDB takes the snapshot of a transaction at its first plain SELECT, and
// TiDB at BEGIN. A keeper that locks the sale's row first would read old rows only on TiDB.
func TestSnapshotOfRepeatableRead(t *testing.T) {
	store, ids := stocked(t, servertest.OpenSQL(t, servers.KindReal), 1)
	quantity := func(tx *gorm.DB) (n int) {
		check.Must(t, tx.Raw("SELECT quantity FROM orders WHERE id = ?", ids[0]).Scan(&n).Error)
		return n
	}
	tx := store.DB.WithContext(t.Context()).Begin(&sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	check.Must(t, tx.Error)
	defer tx.Rollback()
	kit.Exec(t, store.DB, "UPDATE orders SET quantity = 2")
	check.Must(t, check.Err(store.LockSale(tx, "S")))
	afterLock := quantity(tx)
	kit.Exec(t, store.DB, "UPDATE orders SET quantity = 3")
	want := 2
	if store.tidb.Load() {
		want = 1
	}
	if later := quantity(tx); afterLock != want || later != want {
		t.Errorf("quantity after the lock, and after another commit: got %d and %d, want %d", afterLock, later, want)
	}
}

// TiDB reports a lock wait timeout with the number of an unknown error.
func TestContended(t *testing.T) {
	for _, c := range []struct {
		number  uint16
		message string
		want    bool
	}{
		{1205, "Lock wait timeout exceeded", true},
		{1105, "lock wait timeout", true},
		{1105, "something else", false},
		{9007, "Write conflict", true},
		{1062, "Duplicate entry", false},
	} {
		if got := contended(fmt.Errorf("pay: %w", &mysqldriver.MySQLError{Number: c.number, Message: c.message})); got != c.want {
			t.Errorf("error %d, %q: got %v, want %v", c.number, c.message, got, c.want)
		}
	}
}

// LockedSale.Now is read after the wait for the row, not before it.
func TestClockIsReadUnderTheLock(t *testing.T) {
	clockIsReadUnderTheLock(t, servertest.OpenSQL(t, servers.KindReal))
}

// With the option sysdate-is-now, SYSDATE returns the time at which the statement began.
func TestClockIsReadUnderTheLockIfSysdateIsNow(t *testing.T) {
	server := servertest.OpenMySQL(t, servers.MySQLConfig{ExtraArgs: []string{"--sysdate-is-now"}})
	dsn, err := server.NewDatabase(t.Context(), "sysdate_is_now")
	check.Must(t, err)
	clockIsReadUnderTheLock(t, dsn)
}

func clockIsReadUnderTheLock(t *testing.T, dsn string) {
	t.Helper()
	store := openStore(t, dsn)
	kit.PutSale(t, store, kit.Sale("S", 1, 1))
	for name, end := range map[string]error{"commit": nil, "rollback": errors.New("rolled back")} {
		locked := make(chan time.Time, 1)
		var free time.Time
		err := store.Transact(t.Context(), func(tx *gorm.DB) error {
			if _, err := store.LockSale(tx, "S"); err != nil {
				return err
			}
			go func() {
				var at time.Time
				check.OK(t, store.Transact(t.Context(), func(tx *gorm.DB) error {
					sale, err := store.LockSale(tx, "S")
					if err == nil {
						at = sale.Now
					}
					return err
				}))
				locked <- at
			}()
			var waits int
			check.Eventually(t, "a transaction waits for the row", func() bool {
				check.Must(t, store.DB.Raw("SELECT COUNT(*) FROM information_schema.processlist"+
					" WHERE db = DATABASE() AND info LIKE '%FOR UPDATE' AND info NOT LIKE '%processlist%'").Scan(&waits).Error)
				return waits > 0
			})
			began := kit.ClockOf(t, store.DB)
			check.Eventually(t, "the transaction has waited for 5 ms", func() bool { free = kit.ClockOf(t, store.DB); return free.Sub(began) > 5*time.Millisecond })
			return end
		})
		check.Is(t, err, end)
		if at := <-locked; at.Before(free) {
			t.Errorf("clock read after a %s: got time %s, want %s or later", name, at, free)
		}
	}
}

// A connection that breaks while it is opened does not change whether the database is a TiDB.
func TestBrokenConnectionIsNotTakenForMySQL(t *testing.T) {
	c := sessions{breaking{}, newDialect(false)}
	c.tidb.Store(true)
	if _, err := c.Connect(t.Context()); !errors.Is(err, driver.ErrBadConn) || !c.tidb.Load() {
		t.Errorf("Connect: got error %v, TiDB %v, want ErrBadConn, TiDB true", err, c.tidb.Load())
	}
}

// breaking is a connection that breaks at its second statement.
type breaking struct {
	driver.Connector
	driver.Conn
}

func (breaking) Connect(context.Context) (driver.Conn, error) { return breaking{}, nil }
func (breaking) Close() error                                 { return nil }
func (breaking) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	if strings.Contains(query, "tidb") {
		return nil, driver.ErrBadConn
	}
	return driver.ResultNoRows, nil
}
