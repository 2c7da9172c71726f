package adapter_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"log"
	"net/http"
	"time"

	_ "github.com/glebarez/sqlite" // the driver "sqlite"

	"flashsale/loadtest/adapter"
	"flashsale/loadtest/judge"
)

// shop is a shop with two tables.
type shop struct {
	db     *sql.DB
	charge func() // takes the payment of an order
}

func (s shop) About() adapter.About {
	return adapter.About{Name: "toy shop", Version: "1", Settings: "reads the units, then inserts", Lacks: []judge.Feature{judge.Keys}}
}

func (s shop) Open(ctx context.Context, sku string, units int, _ int64, _ string) error {
	_, err := s.db.ExecContext(ctx, "INSERT INTO products VALUES (?, ?)", sku, units)
	return err
}

func (s shop) Order(ctx context.Context, sku, buyer, key string, units int) (adapter.Order, error) {
	var left int
	err := s.db.QueryRowContext(ctx, "SELECT units FROM products WHERE sku = ?", sku).Scan(&left)
	if err == nil && left < units {
		err = adapter.ErrSoldOut
	}
	if err != nil {
		return adapter.Order{}, err
	}
	s.charge()
	id := rand.Text()
	_, err = s.db.ExecContext(ctx, "UPDATE products SET units = units - ? WHERE sku = ?", units, sku)
	if err == nil {
		_, err = s.db.ExecContext(ctx, "INSERT INTO orders VALUES (?, ?, ?, ?, ?)", id, sku, buyer, key, units)
	}
	return adapter.Order{ID: id}, err
}

func (s shop) Rows(ctx context.Context, sku string) (list []judge.Row, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT id, buyer, order_key, units FROM orders WHERE sku = ?", sku)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var row judge.Row
		if err := rows.Scan(&row.ID, &row.Buyer, &row.Key, &row.Quantity); err != nil {
			return nil, err
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

func openShop(ctx context.Context, driver, dsn string) shop {
	db, err := sql.Open(driver, dsn)
	if err == nil {
		db.SetMaxOpenConns(1) // in SQLite's memory, each connection has a database of its own
		_, err = db.ExecContext(ctx, "CREATE TABLE products (sku VARCHAR(64), units INT)")
	}
	if err == nil {
		_, err = db.ExecContext(ctx, "CREATE TABLE orders (id VARCHAR(64), sku VARCHAR(64), buyer VARCHAR(64), order_key VARCHAR(128), units INT)")
	}
	if err != nil {
		log.Fatal(err)
	}
	return shop{db, func() { time.Sleep(2 * time.Millisecond) }}
}

func Example_program() {
	s := openShop(context.Background(), "sqlite", ":memory:")
	log.Fatal(http.ListenAndServe("127.0.0.1:9000", adapter.Handler(s)))
}
