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

// OrderOf reads an order of buyer. Error: ErrNotFound, also for an order of another buyer.
func (s *Store) OrderOf(ctx context.Context, buyer, id string) (*orders.Order, error) {
	return first[orders.Order](s.DB.WithContext(ctx).Where("id = ? AND buyer = ?", id, buyer), "order")
}

// OrderByKey reads the order that buyer made of sku under an idempotency key. Error:
// ErrNotFound.
func (s *Store) OrderByKey(ctx context.Context, sku, buyer, key string) (*orders.Order, error) {
	return first[orders.Order](s.DB.WithContext(ctx).Where("sku = ? AND buyer = ? AND idempotency_key = ?", sku, buyer, key), "order")
}

// Lookup reads the buyer's order of sku with an idempotency key, and the epoch, mode and
// ReserveOn of the sale, in one statement. The order is nil if it does not exist. Lookup waits
// for a barrier. Error: ErrNotFound if there is no sale.
func (s *Store) Lookup(ctx context.Context, sku, buyer, key string) (*orders.Order, *orders.Sale, error) {
	found, err := first[struct {
		orders.Order `gorm:"embedded"`
		SaleEpoch    int64
		SaleMode     string
		ReserveOn    string
		ReserveFrom  int64
	}](s.DB.WithContext(ctx).Table("sales AS s").Select("o.*, s.epoch AS sale_epoch, s.mode AS sale_mode, s.reserve_on, s.reserve_from").
		Joins("LEFT JOIN orders AS o ON o.sku = s.sku AND o.buyer = ? AND o.idempotency_key = ?", buyer, key).Where("s.sku = ?", sku), "sale "+sku)
	if err == nil {
		err = s.Barrier(ctx)
	}
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
	var rows []orders.Order
	err := s.DB.WithContext(ctx).Where("id IN ?", ids).Find(&rows).Error
	return rows, wrap(err, "read %d orders", len(ids))
}

// OrdersOfBuyer reads a page of buyer's orders, newest first. cursor is "" for the first page.
// The returned cursor is for the next page, and "" after the last page.
func (s *Store) OrdersOfBuyer(ctx context.Context, buyer string, limit int, cursor string) ([]orders.Order, string, error) {
	q := s.DB.WithContext(ctx).Where("buyer = ?", buyer)
	if cursor != "" {
		at, id, err := parseCursor(cursor)
		if err != nil {
			return nil, "", err
		}
		q = q.Where("created_at < ? OR (created_at = ? AND id < ?)", at, at, id)
	}
	rows, next, err := page(s, q.Order("created_at DESC, id DESC"), limit, func(o orders.Order) string { return cursorAt(o.CreatedAt, o.ID) })
	return rows, next, wrap(err, "read orders of %s", buyer)
}

// page reads up to limit rows of a query, and returns the cursor for the next page. It waits
// for a barrier.
func page[Row any](s *Store, q *gorm.DB, limit int, cursor func(Row) string) (rows []Row, next string, err error) {
	err = q.Limit(limit + 1).Find(&rows).Error
	if err == nil {
		err = s.Barrier(q.Statement.Context)
	}
	if err != nil {
		return nil, "", err
	}
	if len(rows) <= limit {
		return rows, "", nil
	}
	return rows[:limit], cursor(rows[limit-1]), nil
}

// OrdersOfSale reads a page of the orders of sku, in the order of their ids. For the cursor see
// OrdersOfBuyer.
func (s *Store) OrdersOfSale(ctx context.Context, sku string, limit int, cursor string) ([]orders.Order, string, error) {
	if cursor != "" && !orders.IsOrderID(cursor) {
		return nil, "", errCursor()
	}
	q := s.DB.WithContext(ctx).Where("sku = ? AND id > ?", sku, cursor).Order("id")
	rows, next, err := page(s, q, limit, func(o orders.Order) string { return o.ID })
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
