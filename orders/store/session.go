package store

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
)

// This file is the only place that opens sessions of MySQL. A session inherits variables of the
// server and of its init_connect, which were perhaps chosen for another program. Therefore each
// session sets every variable that can change what a statement means, what it returns, or when it
// commits. Variables that only limit resources, or that choose among plans of equal results, keep
// the server's values. So does wsrep_sync_wait, which flashsale doctor examines.

// pinned contains variables without which the store is not safe. One statement sets them, and if
// the server rejects it, the connection fails.
var pinned = map[string]string{
	"autocommit":      "1",
	"completion_type": "0", // with 1, each COMMIT begins a transaction, and with 2, it ends the session
	"time_zone":       "'+00:00'",
	"sql_mode":        "'TRADITIONAL'", // a value that does not fit is an error and is never truncated
	"unique_checks":   "1",             // with 0, InnoDB may accept a second order under one key
}

// pinnedIfKnown contains assignments that some engines reject.
var pinnedIfKnown = []string{
	pessimistic,
	"sql_select_limit = 18446744073709551615",
	"sql_safe_updates = 0",
	"sql_big_selects = 1", // disables max_join_size
	"sql_auto_is_null = 0",
	"max_sort_length = 1024", // bytes that ORDER BY compares
	"timestamp = DEFAULT",    // otherwise UTC_TIMESTAMP may be a fixed time
	"default_storage_engine = InnoDB",

	// MariaDB
	"check_constraint_checks = 1",
	"max_statement_time = 0", // a migration may take long
	"query_cache_type = 0",
	"wsrep_dirty_reads = 0", // a node that Galera's majority has lost must not answer
	"wsrep_osu_method = 'TOI'",

	// MySQL and TiDB
	"max_execution_time = 0",

	// By default, MySQL looks up each buyer of a batch twice, once to estimate the number of
	// rows, which costs 3 µs per order. With a limit of 10 it estimates long lists by
	// averages. Short lists need the lookups: by averages, unreleased orders would seem as
	// frequent as pending ones, and a query that finds no unreleased order would read all
	// pending orders.
	"eq_range_index_dive_limit = 10",
}

// pessimistic is an assignment that only TiDB knows. An optimistic transaction takes no locks, so a
// keeper with an old fence would notice it only at the COMMIT.
const pessimistic = "tidb_txn_mode = 'pessimistic'"

// pinnedOnTiDB contains assignments of pinnedIfKnown for TiDB.
var pinnedOnTiDB = []string{
	// Otherwise a transaction may be committed in parts, or check its keys only at the COMMIT.
	"tidb_batch_insert = 0", "tidb_batch_delete = 0", "tidb_batch_commit = 0", "tidb_dml_batch_size = 0",
	"tidb_dml_type = 'standard'", "tidb_constraint_check_in_place_pessimistic = 1",
	// Otherwise a statement may read old rows.
	"tidb_snapshot = ''", "tidb_read_staleness = 0", "tidb_enable_external_ts_read = 0",
	"tidb_low_resolution_tso = 0", "tidb_read_consistency = 'strict'", "tidb_guarantee_linearizability = 1",
}

// OpenSessions returns a pool for locks. It has no read timeout, and its sessions set the same
// variables as the sessions of a Store.
func OpenSessions(dsn string) (*sql.DB, error) {
	db, err := newDialect(false).openMySQL(dsn, Config{noReadTimeout: true})
	if err == nil {
		db.SetMaxIdleConns(2)
	}
	return db, err
}

func (d dialect) openMySQL(dsn string, cfg Config) (*sql.DB, error) {
	if cfg.WaitTimeout < time.Second {
		cfg.WaitTimeout = 5 * time.Second
	}
	c, err := session(dsn, cfg)
	if err != nil {
		return nil, err
	}
	connector, err := mysqldriver.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("mysql DSN: %w", err)
	}
	db := sql.OpenDB(sessions{connector, d})
	db.SetMaxOpenConns(cfg.Connections)
	db.SetMaxIdleConns(cfg.Connections)
	// Drop idle connections before the server ends their sessions.
	db.SetConnMaxIdleTime(cfg.WaitTimeout / 2)
	db.SetConnMaxLifetime(sessionLifetime)
	return db, nil
}

// session returns the driver's configuration for dsn.
func session(dsn string, cfg Config) (*mysqldriver.Config, error) {
	c, err := mysqldriver.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("mysql DSN: %w (such as user:password@tcp(host:3306)/flashsale)", err)
	}
	if c.DBName == "" {
		return nil, errors.New("mysql DSN: names no database (such as user:password@tcp(host:3306)/flashsale)")
	}
	c.ParseTime, c.Loc = true, time.UTC
	c.ClientFoundRows = true   // RowsAffected counts a row even if the update does not change it
	c.InterpolateParams = true // one round trip per statement, and no prepared statement per batch size
	c.Logger = debugLogger{}
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	if c.Params == nil {
		c.Params = map[string]string{}
	}
	wait, err := strconv.Atoi(cmp.Or(c.Params["innodb_lock_wait_timeout"], strconv.Itoa(lockWait)))
	if err != nil {
		return nil, fmt.Errorf("mysql DSN: innodb_lock_wait_timeout: %w, want whole seconds", err)
	}
	// The driver's COMMIT takes no context. These timeouts end a COMMIT on a silent
	// connection. They are longer than a wait for a row lock.
	limit := time.Duration(wait)*time.Second + silence
	c.ReadTimeout, c.WriteTimeout = cmp.Or(c.ReadTimeout, limit), cmp.Or(c.WriteTimeout, limit)
	if cfg.noReadTimeout {
		c.ReadTimeout = 0
	}
	maps.Copy(c.Params, pinned)
	c.Params["innodb_lock_wait_timeout"] = strconv.Itoa(wait)
	c.Params["wait_timeout"] = fmt.Sprint(int(cfg.WaitTimeout.Seconds()))
	// A server with skip-character-set-client-handshake ignores the driver's character set.
	return c, c.Apply(mysqldriver.Charset("utf8mb4", "utf8mb4_general_ci"))
}

// debugLogger logs the driver's messages at level debug, because the driver also returns
// every error that it logs.
type debugLogger struct{}

func (debugLogger) Print(v ...any) { slog.Debug("mysql driver", "message", fmt.Sprint(v...)) }

// sessions opens sessions with the isolation level READ COMMITTED, in which a statement
// reads all rows that were committed before it.
//
// With REPEATABLE READ, all statements of a transaction read the same snapshot. TiDB takes it
// at BEGIN, so a keeper would decide by rows from before it locked the sale's row. InnoDB
// takes it at the first plain SELECT, which in a keeper's transaction follows the row lock.
// There, READ COMMITTED avoids gap locks, with which transactions wait for unrelated inserts.
type sessions struct {
	driver.Connector
	dialect
}

func (s sessions) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// prepare sets what the driver's first statements have not set.
func (s sessions) prepare(ctx context.Context, conn driver.Conn) error {
	exec := func(statement string) error {
		_, err := conn.(driver.ExecerContext).ExecContext(ctx, statement, nil)
		return err
	}
	if err := exec("ROLLBACK"); err != nil { // init_connect may have begun a transaction
		return err
	}
	if err := exec("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE"); err != nil {
		return err
	}
	if err := s.pin(exec, pinnedIfKnown); err != nil {
		return err
	}
	_, rejected := s.rejected.Load(pessimistic)
	s.tidb.Store(!rejected)
	if !rejected {
		if err := s.pin(exec, pinnedOnTiDB); err != nil {
			return err
		}
	}
	return s.readClockOption(ctx, conn)
}

// pin makes the assignments that the server has not rejected before. If the server rejects
// the statement with all of them, pin makes one after the other, and notes which are rejected.
func (s sessions) pin(exec func(string) error, assignments []string) error {
	var list []string
	for _, assignment := range assignments {
		if _, rejected := s.rejected.Load(assignment); !rejected {
			list = append(list, "SESSION "+assignment)
		}
	}
	err := exec("SET " + strings.Join(list, ", "))
	if err == nil || !isServerError(err) {
		return err
	}
	for _, assignment := range list {
		err := exec("SET " + assignment)
		if err == nil {
			continue
		}
		if !isServerError(err) {
			return err
		}
		if _, noted := s.rejected.LoadOrStore(strings.TrimPrefix(assignment, "SESSION "), true); !noted && !isUnknownVariable(err) {
			slog.Warn("a session keeps the server's value of a variable, because the server rejects the assignment", "assignment", assignment, "error", err)
		}
	}
	return nil
}

// readClockOption finds out whether the server runs with sysdate-is-now (see lockRows). There is
// no variable for it.
func (s sessions) readClockOption(ctx context.Context, conn driver.Conn) error {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, "SELECT 1 FROM (SELECT 1) AS one WHERE SYSDATE(6) = NOW(6)", nil)
	if err != nil {
		return err
	}
	err = rows.Next(make([]driver.Value, 1))
	s.sysdateIsNow.Store(err == nil)
	if err == nil || errors.Is(err, io.EOF) {
		return rows.Close()
	}
	return errors.Join(err, rows.Close())
}
