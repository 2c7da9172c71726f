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

	"flashsale/inventory/coalesce"
	"flashsale/orders"
)

// All answers of the functions in this file are durable, see durably. They also return
// ErrUnavailable.

// OrderOf reads an order of buyer. Error: ErrNotFound, also for an order of another buyer.
func (s *Store) OrderOf(ctx context.Context, buyer, id string) (*orders.Order, error) {
	return durably(ctx, s, orderLane, func(db *gorm.DB) (*orders.Order, error) { return readOrderOf(db, buyer, id) })
}

func readOrderOf(db *gorm.DB, buyer, id string) (*orders.Order, error) {
	return first[orders.Order](db.Where("id = ? AND buyer = ?", id, buyer), "order")
}

// orderAfter reads an order of buyer after an update to a status. If this call's update has changed
// the order, and the row has the new status, the update's commit has made the row durable, and no
// barrier is needed.
func (s *Store) orderAfter(ctx context.Context, changed bool, to orders.Status, buyer, id string) (*orders.Order, error) {
	if changed {
		if o, err := readOrderOf(s.DB.WithContext(ctx), buyer, id); err == nil && o.Status == to {
			return o, nil
		}
	}
	return s.OrderOf(ctx, buyer, id)
}

// OrderByKey reads the order that buyer made of sku under an idempotency key. Error:
// ErrNotFound.
func (s *Store) OrderByKey(ctx context.Context, sku, buyer, key string) (*orders.Order, error) {
	o, _, err := s.Lookup(ctx, sku, buyer, key)
	if err == nil && o == nil {
		err = fmt.Errorf("read order: %w", orders.ErrNotFound)
	}
	return o, err
}

// Lookup reads the epoch, mode and ReserveOn of the sale, and then the buyer's order of sku with
// an idempotency key. The order is nil if it does not exist. If it appears between the two
// statements, Lookup finds it. Concurrent callers share both statements. Error: ErrNotFound if
// there is no sale.
func (s *Store) Lookup(ctx context.Context, sku, buyer, key string) (*orders.Order, *orders.Sale, error) {
	found, err := s.lookups.Do(ctx, sku, buyerKey{buyer, key})
	if err != nil && !errors.Is(err, orders.ErrNotFound) {
		err = errors.Join(orders.ErrUnavailable, err)
	}
	return found.order, found.sale, err
}

// A buyerKey is an idempotency key of a buyer.
type buyerKey struct{ buyer, key string }

// A keyed order is an answer of Lookup.
type keyed struct {
	order *orders.Order
	sale  *orders.Sale
}

// newLookups returns the group in which concurrent callers of Lookup share two statements.
func (s *Store) newLookups() *coalesce.Group[buyerKey, keyed] {
	return coalesce.New(coalesce.Config[buyerKey, keyed]{
		MaxCallers: maxReaders, MaxBatch: 100, Timeout: s.Timeout, Patience: readPatience,
		Call: func(ctx context.Context, sku string, batch []*coalesce.Caller[buyerKey, keyed]) {
			var keys []any
			for _, c := range batch {
				keys = append(keys, sku, c.Q.buyer, c.Q.key)
			}
			type rows struct {
				list []orders.Order
				sale *orders.Sale
			}
			found, err := durably(ctx, s, orderLane, func(db *gorm.DB) (r rows, err error) {
				r.sale, err = first[orders.Sale](db.Select("sku", "epoch", "mode", "reserve_on", "reserve_from").Where("sku = ?", sku), "sale "+sku)
				if err == nil {
					err = db.Table(s.ordersByKey()).Where(s.in("sku, buyer, idempotency_key", 3, len(keys)/3), keys...).Find(&r.list).Error
				}
				return r, err
			})
			for _, c := range batch {
				c.Answer.sale, c.Err = found.sale, err
				for i, o := range found.list {
					if o.Buyer == c.Q.buyer && *o.IdempotencyKey == c.Q.key {
						c.Answer.order = &found.list[i]
					}
				}
			}
		},
	})
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
	return durably(ctx, s, orderLane, func(db *gorm.DB) (rows []orders.Order, err error) {
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
	rows, err := durably(ctx, s, pageLane, func(db *gorm.DB) (rows []Row, err error) {
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
