package variants

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	_ "github.com/glebarez/sqlite" // the driver of sql.Open
	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

// Stores are the connections of one shop to Redis and to the database.
type Stores struct {
	Redis  *redis.Client
	DB     *sql.DB
	SQLite bool // the database is SQLite, not MySQL
}

// Connect prepares the connections of one shop. The stores need not be reachable.
func Connect(redisURL, dsn string) (Stores, error) {
	o, err := redis.ParseURL(redisURL)
	if err != nil {
		return Stores{}, fmt.Errorf("open Redis: %w", err)
	}
	o.ContextTimeoutEnabled = true
	o.PoolSize = 512  // callers that wait for an answer do not delay other callers
	o.MaxRetries = -1 // a script that go-redis sends twice would count twice in some shops
	db, err := openSQL(dsn)
	if err != nil {
		return Stores{}, err
	}
	return Stores{Redis: redis.NewClient(o), DB: db, SQLite: IsSQLite(dsn)}, nil
}

// Close closes the connections.
func (s Stores) Close() error { return errors.Join(s.Redis.Close(), s.DB.Close()) }

// IsSQLite reports whether a DSN names a file of the embedded database.
func IsSQLite(dsn string) bool { return strings.HasPrefix(dsn, "sqlite:") }

func openSQL(dsn string) (*sql.DB, error) {
	if file, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		db, err := sql.Open("sqlite", file+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)") // the embedded database need not be durable
		if err == nil {
			db.SetMaxOpenConns(1)
		}
		return db, err
	}
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	c.InterpolateParams, c.ClientFoundRows = true, true
	c.Logger = &mysql.NopLogger{} // the driver also returns every error that it logs
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	db := sql.OpenDB(readCommitted{connector})
	db.SetMaxOpenConns(32) // the limit of the real service
	db.SetMaxIdleConns(32)
	return db, nil
}

// readCommitted sets the isolation level at which a caller that has waited for a
// row's lock reads the newest version of the row.
type readCommitted struct{ driver.Connector }

func (c readCommitted) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.(driver.ExecerContext).ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Column sales.sold is for shops that count units in the database.
var schema = []string{
	`CREATE TABLE IF NOT EXISTS sales (sku VARCHAR(64) PRIMARY KEY, total BIGINT NOT NULL, per_buyer BIGINT NOT NULL,
		window_ms BIGINT NOT NULL, on_payment BOOLEAN NOT NULL, sold BIGINT NOT NULL DEFAULT 0)`,
	`CREATE TABLE IF NOT EXISTS orders (id CHAR(36) PRIMARY KEY, sku VARCHAR(64) NOT NULL, buyer VARCHAR(64) NOT NULL,
		order_key VARCHAR(128) NOT NULL, quantity BIGINT NOT NULL, status VARCHAR(16) NOT NULL, created_ms BIGINT NOT NULL,
		expires_ms BIGINT NOT NULL, paid_ms BIGINT NOT NULL DEFAULT 0, closed_ms BIGINT NOT NULL DEFAULT 0,
		released BOOLEAN NOT NULL DEFAULT FALSE, UNIQUE (sku, buyer, order_key),
		UNIQUE (released, status, expires_ms, id))`,
	`CREATE TABLE IF NOT EXISTS buyers (sku VARCHAR(64) NOT NULL, buyer VARCHAR(64) NOT NULL, units BIGINT NOT NULL,
		PRIMARY KEY (sku, buyer))`,
	`CREATE TABLE IF NOT EXISTS units (sku VARCHAR(64) NOT NULL, n BIGINT NOT NULL, order_id CHAR(36),
		PRIMARY KEY (sku, n), UNIQUE (sku, order_id, n))`,
}

// tables are the rows of a shop. All shops have the same tables and use some of them.
type tables struct {
	Stores
	sales sync.Map // sku → Sale; a sale never changes
}

// Migrate creates the missing tables.
func Migrate(ctx context.Context, db *sql.DB) error {
	for _, statement := range schema {
		if err := exec(ctx, db, statement); err != nil {
			return err
		}
	}
	return nil
}

func (t *tables) Open(ctx context.Context, s Sale) error {
	return exec(ctx, t.DB, "INSERT INTO sales (sku, total, per_buyer, window_ms, on_payment) VALUES (?, ?, ?, ?, ?)",
		s.SKU, s.Total, s.UnitsPerBuyer, s.WindowMS, s.OnPayment)
}

func (t *tables) Sale(ctx context.Context, sku string) (Sale, error) {
	if s, ok := t.sales.Load(sku); ok {
		return s.(Sale), nil
	}
	s := Sale{SKU: sku}
	err := t.DB.QueryRowContext(ctx, "SELECT total, per_buyer, window_ms, on_payment FROM sales WHERE sku = ?", sku).
		Scan(&s.Total, &s.UnitsPerBuyer, &s.WindowMS, &s.OnPayment)
	if errors.Is(err, sql.ErrNoRows) {
		return s, ErrNotFound
	}
	if err != nil {
		return s, fmt.Errorf("read sale %s: %w", sku, err)
	}
	t.sales.Store(sku, s)
	return s, nil
}

// A querier is the database, or a transaction in it.
type querier interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// update reports whether a statement has changed a row.
func update(ctx context.Context, db querier, statement string, args ...any) (bool, error) {
	r, err := db.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, fmt.Errorf("execute %q: %w", statement, err)
	}
	n, err := r.RowsAffected()
	return n > 0, err
}

func exec(ctx context.Context, db querier, statement string, args ...any) error {
	_, err := update(ctx, db, statement, args...)
	return err
}

// sum returns the number that query yields, and 0 for NULL.
func sum(ctx context.Context, db querier, query string, args ...any) (int, error) {
	var n sql.NullInt64
	if err := db.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("execute %q: %w", query, err)
	}
	return int(n.Int64), nil
}

func insert(ctx context.Context, db querier, o Order) error {
	return exec(ctx, db, `INSERT INTO orders (id, sku, buyer, order_key, quantity, status, created_ms, expires_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, o.ID, o.SKU, o.Buyer, o.Key, o.Quantity, o.Status, o.CreatedMS, o.ExpiresMS)
}

// promise stores an order that takes no units. Its payment takes them, and only
// paid units count for the buyer's limit.
func (t *tables) promise(ctx context.Context, o Order) (Order, bool, error) {
	err := insert(ctx, t.DB, o)
	if err == nil {
		return o, false, nil
	}
	earlier, missing := t.sameKey(ctx, o)
	if missing != nil {
		return o, false, err
	}
	return earlier, earlier.ID != o.ID, nil
}

const columns = "id, sku, buyer, order_key, quantity, status, created_ms, expires_ms, paid_ms, closed_ms, released"

// orders returns rows. The query continues with rest after FROM orders.
func (t *tables) orders(ctx context.Context, rest string, args ...any) (all []Order, err error) {
	rows, err := t.DB.QueryContext(ctx, "SELECT "+columns+" FROM orders "+rest, args...)
	if err != nil {
		return nil, fmt.Errorf("read the orders: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var o Order
		if err := rows.Scan(&o.ID, &o.SKU, &o.Buyer, &o.Key, &o.Quantity, &o.Status, &o.CreatedMS, &o.ExpiresMS, &o.PaidMS, &o.ClosedMS, &o.Released); err != nil {
			return nil, fmt.Errorf("read an order: %w", err)
		}
		all = append(all, o)
	}
	return all, rows.Err()
}

func (t *tables) Find(ctx context.Context, id string) (Order, error) {
	return t.one(ctx, "WHERE id = ?", id)
}

// sameKey returns the buyer's order with the key of o, or ErrNotFound.
func (t *tables) sameKey(ctx context.Context, o Order) (Order, error) {
	return t.one(ctx, "WHERE sku = ? AND buyer = ? AND order_key = ?", o.SKU, o.Buyer, o.Key)
}

func (t *tables) one(ctx context.Context, rest string, args ...any) (Order, error) {
	found, err := t.orders(ctx, rest, args...)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Order{}, err
	}
	return found[0], nil
}

func (t *tables) Orders(ctx context.Context, sku, after string, n int) ([]Order, error) {
	return t.orders(ctx, "WHERE sku = ? AND id > ? ORDER BY id LIMIT ?", sku, after, n)
}

func (t *tables) Sold(ctx context.Context, sku string) (pending, paid int, err error) {
	s, err := t.Sale(ctx, sku)
	if err != nil {
		return 0, 0, err
	}
	err = t.DB.QueryRowContext(ctx, `SELECT COALESCE(SUM(CASE status WHEN ? THEN quantity END), 0),
		COALESCE(SUM(CASE status WHEN ? THEN quantity END), 0) FROM orders WHERE sku = ?`, Pending, Paid, sku).Scan(&pending, &paid)
	if err != nil {
		return 0, 0, fmt.Errorf("add up orders of %s: %w", sku, err)
	}
	if s.OnPayment {
		pending = 0 // a pending order has no units
	}
	return pending, paid, nil
}

func now() int64 { return time.Now().UnixMilli() }
