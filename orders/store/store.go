package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/glebarez/sqlite"
	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"flashsale/inventory/coalesce"
)

// Config of a Store. The zero value means the defaults.
type Config struct {
	// Connections to the database, at most; at least 2, for Migrate holds one
	// while it uses another. Default 32. SQLite has one.
	Connections int
	// WaitTimeout is after how long the server ends a session that holds a
	// row and says nothing: a keeper that was stopped between row lock and
	// commit must not freeze its SKU. Whole seconds, default 5 s: the lease.
	WaitTimeout time.Duration
	// Timeout bounds each read and each transaction of a request, so that a database
	// that neither answers nor fails holds no caller for ever. Waiting for a keeper is
	// not included. Default 5 s.
	Timeout time.Duration
	// OrdersPerBuyer is how many orders a buyer may make of one SKU, whatever
	// becomes of them; a further one is inventory.ErrBuyerLimit. Default 1,000.
	OrdersPerBuyer int
	// Node is the name of the process, unique among the nodes. Default a random name.
	Node string
	// Stats, where set, is what the node tells of itself with each heartbeat:
	// ASCII, up to 8,000 bytes. Nodes returns it.
	Stats func() string

	patient bool // a statement may take as long as it likes
}

// lockWait is how many seconds a statement waits for a row lock, and lockWait and
// silence together how long a connection may say nothing while an answer is waited
// for. A DSN with innodb_lock_wait_timeout, readTimeout or writeTimeout has the
// last word.
const (
	lockWait = 5
	silence  = 3 * time.Second
)

// A Store keeps sales and orders in MySQL, in any database that speaks its
// protocol, or in SQLite. It is safe for concurrent use.
type Store struct {
	dialect
	DB    *gorm.DB
	sql   *sql.DB
	dsn   string
	Node  string // name of the process: heartbeats and barriers write the row of that name
	stats func() string

	Timeout        time.Duration // Config.Timeout
	ordersPerBuyer int64
	full           *lru.Cache[saleBuyer, time.Time] // buyers with that many orders, as last seen, and when their sale was created: its orders do not go away
	Barriers       *coalesce.Group[struct{}, struct{}]
	endings        *coalesce.Group[ending, int64]
}

// sqlitePrefix marks the DSN of a SQLite file.
const sqlitePrefix = "sqlite:"

// Open opens dsn: "sqlite:FILE", or a DSN of go-sql-driver/mysql such as
// "user:password@tcp(host:3306)/flashsale". It does not connect yet.
func Open(dsn string, cfg Config) (*Store, error) {
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), DefaultTimeout)
	s := &Store{
		dialect: dialect{strings.HasPrefix(dsn, sqlitePrefix), new(atomic.Bool)}, dsn: dsn, Node: cmp.Or(cfg.Node, uuid.NewString()), stats: cfg.Stats,
		Timeout: cfg.Timeout, ordersPerBuyer: int64(cmp.Or(max(cfg.OrdersPerBuyer, 0), 1000)),
	}
	s.Barriers, s.endings = s.newBarrier(), s.newEndings()
	s.full, _ = lru.New[saleBuyer, time.Time](10_000) // an error only for a size below 1
	open := s.openMySQL
	if s.sqlite {
		open = openSQLite
	}
	var err error
	if s.sql, err = open(dsn, cfg); err != nil {
		return nil, err
	}
	if s.DB, err = s.over(s.sql); err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", err), s.sql.Close())
	}
	return s, nil
}

// On returns the same store on other connections: a test has statements of it fail.
func (s *Store) On(pool gorm.ConnPool) (*Store, error) {
	other := *s
	db, err := s.over(pool)
	other.DB, other.endings = db, other.newEndings()
	return &other, err
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

func openSQLite(dsn string, cfg Config) (*sql.DB, error) {
	// Without an immediate lock a transaction that reads and then writes
	// fails at once beside another writer.
	file := fmt.Sprintf("%s?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=busy_timeout(%d)&_pragma=synchronous(NORMAL)&_pragma=foreign_keys(1)",
		strings.TrimPrefix(dsn, sqlitePrefix), cfg.Timeout.Milliseconds())
	db, err := sql.Open(sqlite.DriverName, file)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dsn, err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func (d dialect) openMySQL(dsn string, cfg Config) (*sql.DB, error) {
	cfg.Connections = max(cmp.Or(max(cfg.Connections, 0), 32), 2)
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
	db := sql.OpenDB(readCommitted{connector, d.tidb})
	db.SetMaxOpenConns(cfg.Connections)
	db.SetMaxIdleConns(cfg.Connections)
	// Sessions that the server would end for being idle are not handed out.
	db.SetConnMaxIdleTime(cfg.WaitTimeout / 2)
	return db, nil
}

// session is how each connection is opened.
func session(dsn string, cfg Config) (*mysqldriver.Config, error) {
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
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	if c.Params == nil {
		c.Params = map[string]string{}
	}
	wait, err := strconv.Atoi(cmp.Or(c.Params["innodb_lock_wait_timeout"], strconv.Itoa(lockWait)))
	if err != nil {
		return nil, fmt.Errorf("mysql DSN: innodb_lock_wait_timeout: %w, want whole seconds", err)
	}
	c.Params["innodb_lock_wait_timeout"] = strconv.Itoa(wait)
	// A COMMIT knows no context: without these a connection that has gone silent
	// would hang for ever. A wait for a row lock is no silence, and ends before.
	limit := time.Duration(wait)*time.Second + silence
	c.ReadTimeout, c.WriteTimeout = cmp.Or(c.ReadTimeout, limit), cmp.Or(c.WriteTimeout, limit)
	if cfg.patient {
		c.ReadTimeout = 0
	}
	c.Params["time_zone"] = "'+00:00'"
	c.Params["sql_mode"] = "'TRADITIONAL'" // what does not fit is an error, and never cut off to fit
	c.Params["wait_timeout"] = fmt.Sprint(int(cfg.WaitTimeout.Seconds()))
	return c, nil
}

// silent drops the driver's own log lines: every error it tells of is returned.
type silent struct{}

func (silent) Print(v ...any) { slog.Debug("mysql driver", "message", fmt.Sprint(v...)) }

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.sql.PingContext(ctx) }

// Close closes all connections.
func (s *Store) Close() error { return s.sql.Close() }

// Stats are those of the connection pool.
func (s *Store) Stats() sql.DBStats { return s.sql.Stats() }

// A saleBuyer is a buyer of one SKU.
type saleBuyer struct{ sku, buyer string }

func (a saleBuyer) compare(b saleBuyer) int {
	return cmp.Or(cmp.Compare(a.sku, b.sku), cmp.Compare(a.buyer, b.buyer))
}
