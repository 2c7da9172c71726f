package orders

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/glebarez/sqlite"
	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// StoreConfig of a Store. The zero value means the defaults.
type StoreConfig struct {
	// Connections to the database, at most; at least 2, for Migrate holds one
	// while it uses another. Default 32. SQLite has one.
	Connections int
	// WaitTimeout is after how long the server ends a session that holds a
	// row and says nothing: a keeper that was stopped between row lock and
	// commit must not freeze its SKU. Whole seconds, default 5 s: the lease.
	WaitTimeout time.Duration
}

// A Store keeps sales and orders in MySQL, in any database that speaks its
// protocol, or in SQLite. It is safe for concurrent use.
type Store struct {
	db     *gorm.DB
	sql    *sql.DB
	sqlite bool

	// Unguarded leaves out the judgement over what the gate has let in and the
	// count in sales.sold. Only for showing what a broken gate does.
	unguarded bool
}

// sqlitePrefix marks the DSN of a SQLite file.
const sqlitePrefix = "sqlite:"

// Open opens dsn: "sqlite:FILE", or a DSN of go-sql-driver/mysql such as
// "user:password@tcp(host:3306)/flashsale". It does not connect yet.
func Open(dsn string, cfg StoreConfig) (*Store, error) {
	s := &Store{sqlite: strings.HasPrefix(dsn, sqlitePrefix)}
	open := openMySQL
	if s.sqlite {
		open = openSQLite
	}
	var err error
	if s.sql, err = open(dsn, cfg); err != nil {
		return nil, err
	}
	if s.db, err = s.over(s.sql); err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", err), s.sql.Close())
	}
	return s, nil
}

// over returns gorm over a pool of connections.
func (s *Store) over(pool gorm.ConnPool) (*gorm.DB, error) {
	dialector := mysql.New(mysql.Config{
		Conn:                      pool,
		SkipInitializeWithVersion: true, // Open must work while the server is still starting
		DisableWithReturning:      true, // on MariaDB it changes what RowsAffected counts
	})
	if s.sqlite {
		dialector = &sqlite.Dialector{DriverName: sqlite.DriverName, Conn: pool}
	}
	return gorm.Open(dialector, &gorm.Config{
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
		Logger:                 logger.Discard, // errors are returned, and logged once where they are handled
		NowFunc:                func() time.Time { return time.Now().UTC() },
	})
}

func openSQLite(dsn string, _ StoreConfig) (*sql.DB, error) {
	// Without an immediate lock a transaction that reads and then writes
	// fails at once beside another writer.
	file := strings.TrimPrefix(dsn, sqlitePrefix) + "?_txlock=immediate&_pragma=journal_mode(WAL)" +
		"&_pragma=busy_timeout(5000)&_pragma=synchronous(NORMAL)&_pragma=foreign_keys(1)"
	db, err := sql.Open(sqlite.DriverName, file)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dsn, err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func openMySQL(dsn string, cfg StoreConfig) (*sql.DB, error) {
	if cfg.Connections <= 0 {
		cfg.Connections = 32
	}
	cfg.Connections = max(cfg.Connections, 2)
	if cfg.WaitTimeout < time.Second {
		cfg.WaitTimeout = 5 * time.Second
	}
	c, err := mysqldriver.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("mysql DSN: %w (such as user:password@tcp(host:3306)/flashsale)", err)
	}
	if c.DBName == "" {
		return nil, errors.New("mysql DSN: names no database (such as user:password@tcp(host:3306)/flashsale)")
	}
	c.ParseTime, c.Loc = true, time.UTC
	c.ClientFoundRows = true   // a fence update that writes the same value counts
	c.InterpolateParams = true // one round trip a statement, and no statement per batch size
	c.Logger = silent{}
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	if c.Params == nil {
		c.Params = map[string]string{}
	}
	c.Params["time_zone"] = "'+00:00'"
	c.Params["sql_mode"] = "'TRADITIONAL'" // what does not fit is an error, and never cut off to fit
	c.Params["wait_timeout"] = fmt.Sprint(int(cfg.WaitTimeout.Seconds()))
	c.Params["innodb_lock_wait_timeout"] = "10"
	connector, err := mysqldriver.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("mysql DSN: %w", err)
	}
	db := sql.OpenDB(readCommitted{connector})
	db.SetMaxOpenConns(cfg.Connections)
	db.SetMaxIdleConns(cfg.Connections)
	// Sessions that the server would end for being idle are not handed out.
	db.SetConnMaxIdleTime(cfg.WaitTimeout / 2)
	return db, nil
}

// readCommitted sets the isolation level of every session: with REPEATABLE
// READ the keeper would judge by what stood before it had the sale's row. The
// statement is the one that MySQL and MariaDB both know.
type readCommitted struct{ driver.Connector }

func (c readCommitted) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.(driver.ExecerContext).ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	// Left to itself the server looks up each of a batch's buyers twice, once to
	// guess how many rows there are: 3 µs an order. Of a few values it must guess
	// so: by its averages as many orders wait to be restored as are pending, and
	// it would read all of them to find none. A database that has no such
	// variable does without.
	if _, err := conn.(driver.ExecerContext).ExecContext(ctx, "SET SESSION eq_range_index_dive_limit = 10", nil); err != nil {
		var refused *mysqldriver.MySQLError
		if !errors.As(err, &refused) {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// silent drops the driver's own log lines: every error it tells of is returned.
type silent struct{}

func (silent) Print(v ...any) { slog.Debug("mysql driver", "message", fmt.Sprint(v...)) }

// Unguarded returns a store without the guards that would hide what a broken
// gate does: whatever it lets in is inserted. For the gallery of broken gates.
func (s *Store) Unguarded() *Store {
	bare := *s
	bare.unguarded = true
	return &bare
}

// Ping tells whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.sql.PingContext(ctx) }

// Close closes all connections.
func (s *Store) Close() error { return s.sql.Close() }

// Stats are those of the connection pool.
func (s *Store) Stats() sql.DBStats { return s.sql.Stats() }
