package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/glebarez/sqlite"
	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"flashsale/inventory/coalesce"
)

// Config of a Store. The zero value means the defaults.
type Config struct {
	// Connections is the maximum number of connections to the database. It is at least 2,
	// because Migrate holds one while it uses another. Default 32. SQLite has one.
	Connections int
	// WaitTimeout is the time after which the server ends an idle session and releases its
	// row locks. It limits how long a keeper that was stopped between row lock and commit
	// blocks its SKU. Whole seconds, default 5 s, as the lease.
	WaitTimeout time.Duration
	// Timeout limits each read and each transaction of a request, so that callers do not
	// wait for a database that hangs. The wait for a keeper is not included. Default 5 s.
	Timeout time.Duration
	// OrdersPerBuyer is the maximum number of orders that a buyer may make of one SKU,
	// including closed orders. A further order is refused with orders.ErrOrderLimit.
	// Default 1,000.
	OrdersPerBuyer int
	// Node is the name of the process, unique among the nodes. Default a random name.
	Node string
	// Stats, if set, returns statistics of the node: ASCII, up to 8,000 bytes. Each heartbeat
	// stores the statistics, and LiveNodes returns them.
	Stats func() string

	noReadTimeout bool
}

// lockWait is the time in seconds that a statement waits for a row lock. A connection that
// stays silent for lockWait and silence, while an answer is due, is closed. The parameters
// innodb_lock_wait_timeout, readTimeout and writeTimeout of a DSN override these values.
const (
	lockWait = 5
	silence  = 3 * time.Second
)

// sessionLifetime is the maximum age of a session. After a planned switch-over, sessions at the
// old primary, which only answers reads, end within this time.
const sessionLifetime = time.Minute

// A Store stores sales and orders in MySQL, in a database with its protocol, or in SQLite. It
// is safe for concurrent use.
type Store struct {
	dialect
	DB    *gorm.DB
	sql   *sql.DB
	dsn   string
	Node  string // Config.Node: heartbeats and barriers write the row with this id
	idle  int    // maximum number of idle connections
	stats func() string

	Timeout        time.Duration // Config.Timeout
	ordersPerBuyer int64
	frequent       *lru.Cache[saleBuyer, frequentBuyer]
	Reads          *coalesce.Group[read, result]
	lookups        *coalesce.Group[buyerKey, keyed]
	saleSteps      *coalesce.Group[saleStep, int64]
}

// sqlitePrefix marks the DSN of a SQLite file.
const sqlitePrefix = "sqlite:"

// Open returns a Store for dsn: "sqlite:FILE", or a DSN of go-sql-driver/mysql such as
// "user:password@tcp(host:3306)/flashsale". It does not connect yet.
func Open(dsn string, cfg Config) (*Store, error) {
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), DefaultTimeout)
	cfg.Connections = max(cmp.Or(max(cfg.Connections, 0), 32), 2)
	s := &Store{
		dialect: newDialect(strings.HasPrefix(dsn, sqlitePrefix)), dsn: dsn, Node: cmp.Or(cfg.Node, uuid.NewString()), stats: cfg.Stats, idle: cfg.Connections,
		Timeout: cfg.Timeout, ordersPerBuyer: int64(cmp.Or(max(cfg.OrdersPerBuyer, 0), 1000)),
	}
	s.Reads, s.lookups, s.saleSteps = s.newReads(), s.newLookups(), s.newSaleSteps()
	s.frequent, _ = lru.New[saleBuyer, frequentBuyer](10_000) // fails only for a size below 1
	open := s.openMySQL
	if s.sqlite {
		open = openSQLite
	}
	var err error
	if s.sql, err = open(dsn, cfg); err != nil {
		return nil, err
	}
	if s.DB, err = s.openGORM(s.sql); err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", err), s.sql.Close())
	}
	return s, nil
}

// WithPool returns a copy of the store that uses pool. Tests use it to make statements fail.
func (s *Store) WithPool(pool gorm.ConnPool) (*Store, error) {
	other := *s
	db, err := s.openGORM(pool)
	other.DB, other.Reads, other.lookups, other.saleSteps = db, other.newReads(), other.newLookups(), other.newSaleSteps()
	return &other, err
}

func (s *Store) openGORM(pool gorm.ConnPool) (*gorm.DB, error) {
	dialector := mysql.New(mysql.Config{
		Conn:                      pool,
		SkipInitializeWithVersion: true, // Open must work while the server is still starting
		DisableWithReturning:      true, // RETURNING changes RowsAffected on MariaDB
	})
	if s.sqlite {
		dialector = &sqlite.Dialector{DriverName: sqlite.DriverName, Conn: pool}
	}
	return gorm.Open(dialector, &gorm.Config{
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
		Logger:                 logger.Discard, // the caller that handles an error logs it
		NowFunc:                func() time.Time { return time.Now().UTC() },
	})
}

func openSQLite(dsn string, cfg Config) (*sql.DB, error) {
	// Without an immediate lock, a transaction that reads and then writes fails at once if
	// another transaction has written since.
	file := fmt.Sprintf("%s?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=busy_timeout(%d)&_pragma=synchronous(NORMAL)&_pragma=foreign_keys(1)",
		strings.TrimPrefix(dsn, sqlitePrefix), cfg.Timeout.Milliseconds())
	db, err := sql.Open(sqlite.DriverName, file)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dsn, err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// closeIdle closes all idle sessions, because they may be at a server that was replaced.
func (s *Store) closeIdle() {
	s.sql.SetMaxIdleConns(0)
	s.sql.SetMaxIdleConns(s.idle)
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.sql.PingContext(ctx) }

// Close closes all connections.
func (s *Store) Close() error { return s.sql.Close() }

// Stats returns the statistics of the connection pool.
func (s *Store) Stats() sql.DBStats { return s.sql.Stats() }

// A saleBuyer is a buyer of one SKU.
type saleBuyer struct{ sku, buyer string }

func (a saleBuyer) compare(b saleBuyer) int {
	return cmp.Or(cmp.Compare(a.sku, b.sku), cmp.Compare(a.buyer, b.buyer))
}
