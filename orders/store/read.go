package store

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"flashsale/orders"
)

// All answers of the functions in this file are durable, see confirmed. They also return
// ErrUnavailable.

// OrderOf reads an order of buyer. Error: ErrNotFound, also for an order of another buyer.
func (s *Store) OrderOf(ctx context.Context, buyer, id string) (*orders.Order, error) {
	return confirmed(ctx, s, orderLane, func(db *gorm.DB) (*orders.Order, error) { return orderOf(db, buyer, id) })
}

func orderOf(db *gorm.DB, buyer, id string) (*orders.Order, error) {
	return first[orders.Order](db.Where("id = ? AND buyer = ?", id, buyer), "order")
}

// OrderByKey reads the order that buyer made of sku under an idempotency key. Error:
// ErrNotFound.
func (s *Store) OrderByKey(ctx context.Context, sku, buyer, key string) (*orders.Order, error) {
	return confirmed(ctx, s, orderLane, func(db *gorm.DB) (*orders.Order, error) {
		return first[orders.Order](db.Where("sku = ? AND buyer = ? AND idempotency_key = ?", sku, buyer, key), "order")
	})
}

// A keyed order is a row of Lookup's query.
type keyed struct {
	orders.Order `gorm:"embedded"`
	SaleEpoch    int64
	SaleMode     string
	ReserveOn    string
	ReserveFrom  int64
}

// Lookup reads the buyer's order of sku with an idempotency key, and the epoch, mode and
// ReserveOn of the sale, in one statement. The order is nil if it does not exist. Error:
// ErrNotFound if there is no sale.
func (s *Store) Lookup(ctx context.Context, sku, buyer, key string) (*orders.Order, *orders.Sale, error) {
	found, err := confirmed(ctx, s, orderLane, func(db *gorm.DB) (*keyed, error) {
		return first[keyed](db.Table("sales AS s").Select("o.*, s.epoch AS sale_epoch, s.mode AS sale_mode, s.reserve_on, s.reserve_from").
			Joins("LEFT JOIN orders AS o ON o.sku = s.sku AND o.buyer = ? AND o.idempotency_key = ?", buyer, key).Where("s.sku = ?", sku), "sale "+sku)
	})
	if err != nil {
		return nil, nil, err
	}
	sale := &orders.Sale{SKU: sku, Epoch: found.SaleEpoch, Mode: found.SaleMode, ReserveOn: found.ReserveOn, ReserveFrom: found.ReserveFrom}
	if found.ID == "" {
		return nil, sale, nil
	}
	return &found.Order, sale, nil
}

// first reads the first row of a query. Error: ErrNotFound.
func first[Row any](q *gorm.DB, what string) (*Row, error) {
	var row Row
	err := q.Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = orders.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return &row, nil
}

// OrdersByID reads the orders with these ids. Orders without a row are left out.
func (s *Store) OrdersByID(ctx context.Context, ids []string) ([]orders.Order, error) {
	return confirmed(ctx, s, orderLane, func(db *gorm.DB) (rows []orders.Order, err error) {
		err = db.Where("id IN ?", ids).Find(&rows).Error
		return rows, wrap(err, "read %d orders", len(ids))
	})
}

// OrdersOfBuyer reads a page of buyer's orders, newest first. cursor is "" for the first page.
// The returned cursor is for the next page, and "" after the last page.
func (s *Store) OrdersOfBuyer(ctx context.Context, buyer string, limit int, cursor string) ([]orders.Order, string, error) {
	after := func(db *gorm.DB) *gorm.DB { return db }
	if cursor != "" {
		at, id, err := parseCursor(cursor)
		if err != nil {
			return nil, "", err
		}
		after = func(db *gorm.DB) *gorm.DB {
			return db.Where("created_at < ? OR (created_at = ? AND id < ?)", at, at, id)
		}
	}
	rows, next, err := page(ctx, s, limit, func(db *gorm.DB) *gorm.DB {
		return after(db.Where("buyer = ?", buyer)).Order("created_at DESC, id DESC")
	}, func(o orders.Order) string { return cursorAt(o.CreatedAt, o.ID) })
	return rows, next, wrap(err, "read orders of %s", buyer)
}

// page reads up to limit rows of a query, and returns the cursor for the next page.
func page[Row any](ctx context.Context, s *Store, limit int, query func(db *gorm.DB) *gorm.DB, cursor func(Row) string) ([]Row, string, error) {
	rows, err := confirmed(ctx, s, pageLane, func(db *gorm.DB) (rows []Row, err error) {
		err = query(db).Limit(limit + 1).Find(&rows).Error
		return rows, err
	})
	if err != nil || len(rows) <= limit {
		return rows, "", err
	}
	return rows[:limit], cursor(rows[limit-1]), nil
}

// OrdersOfSale reads a page of the orders of sku, in the order of their ids. For the cursor see
// OrdersOfBuyer.
func (s *Store) OrdersOfSale(ctx context.Context, sku string, limit int, cursor string) ([]orders.Order, string, error) {
	if cursor != "" && !orders.IsOrderID(cursor) {
		return nil, "", errCursor()
	}
	rows, next, err := page(ctx, s, limit, func(db *gorm.DB) *gorm.DB {
		return db.Where("sku = ? AND id > ?", sku, cursor).Order("id")
	}, func(o orders.Order) string { return o.ID })
	return rows, next, wrap(err, "read orders of %s", sku)
}

func cursorAt(t time.Time, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(t.UnixMilli(), 10) + "." + id))
}

func parseCursor(s string) (time.Time, string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	ms, id, _ := strings.Cut(string(raw), ".")
	n, convErr := strconv.ParseInt(ms, 10, 64)
	if at := time.UnixMilli(n).UTC(); err == nil && convErr == nil && orders.Storable(at) && orders.IsOrderID(id) {
		return at, id, nil
	}
	return time.Time{}, "", errCursor()
}

func errCursor() error {
	return &orders.InvalidError{Fields: map[string]string{"cursor": "must be one that this server gave out"}}
}
