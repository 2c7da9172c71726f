package store

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"flashsale/orders"
)

// The feed of changes reports the current state of every order and of every sale that an operator
// has changed. A statement that changes the state of an order, or the terms of a sale, sets
// change_no to NULL. Number later gives such rows a number, and Changes reads the rows in the order
// of their numbers. A row that changes again leaves its place and gets a later number.
//
// An AUTO_INCREMENT number becomes visible when its transaction commits, so a lower number can appear
// after a higher one, and a reader would skip it. Number avoids this: each of its transactions first
// updates the row feed, and so waits until the numbers before its own are visible.

const (
	numberEvery = 90 * time.Millisecond // least time between two transactions of Number; less than between two steps of a Feed, which vary
	numberBatch = 500                   // rows per transaction of Number
	maxDefer    = time.Minute           // maximum duration of DeferNumbering
	skew        = time.Minute           // time by which the clocks of two servers of one database may differ
)

// A FeedState is the state of the feed.
type FeedState struct {
	Last    int64         // the last number that was given
	Waiting time.Duration // time since no row waited for a number; 0 if none waits now
}

// FeedState reads the state of the feed.
func (s *Store) FeedState(ctx context.Context) (state FeedState, err error) {
	var row struct {
		Last       int64
		CompleteAt time.Time
		Changed    bool
	}
	db := s.DB.WithContext(ctx)
	now, err := s.readTime(db)
	if err == nil {
		err = db.Raw("SELECT last, complete_at, EXISTS(SELECT 1 FROM orders WHERE change_no IS NULL)" +
			" OR EXISTS(SELECT 1 FROM sales WHERE change_no IS NULL) AS changed FROM feed WHERE id = 1").Scan(&row).Error
	}
	if state.Last = row.Last; row.Changed {
		state.Waiting = max(now.Sub(row.CompleteAt), time.Millisecond)
	}
	return state, wrap(err, "read the state of the feed")
}

// Number gives one new number to at most 500 changed orders and 500 changed sales, and returns the
// number. It returns 0 and changes nothing if another call, on any node, has given a number within
// 90 ms, or if DeferNumbering forbids it.
//
// Except on TiDB, Number never waits for another transaction that has locked a changed row. It
// leaves the row to a later call.
func (s *Store) Number(ctx context.Context) (no int64, err error) {
	no, err = transact(ctx, s, func(tx *gorm.DB) (int64, error) {
		now, err := s.readTime(tx)
		if err != nil {
			return 0, err
		}
		// A time that is far in the future was written before the clock was set back. It is ignored.
		ms := now.UnixMilli()
		r := tx.Exec("UPDATE feed SET last = CASE WHEN last < ? THEN ? ELSE last + 1 END, numbered_at = ?"+
			" WHERE id = 1 AND (numbered_at <= ? OR numbered_at > ?) AND (not_before <= ? OR not_before > ?)",
			ms, ms, now, now.Add(-numberEvery), now.Add(time.Second), now, now.Add(maxDefer))
		if r.Error != nil || r.RowsAffected == 0 {
			return 0, r.Error
		}
		var no int64
		if err := tx.Raw("SELECT last FROM feed WHERE id = 1").Row().Scan(&no); err != nil {
			return 0, err
		}
		full := false
		for _, table := range []struct{ name, id string }{{"sales", "sku"}, {"orders", "id"}} { // all transactions lock a sale before its orders
			n, err := s.numberRows(tx, table.name, table.id, no)
			if err != nil {
				return 0, err
			}
			full = full || n == numberBatch
		}
		if !full {
			err = tx.Exec("UPDATE feed SET complete_at = ? WHERE id = 1", now).Error
		}
		return no, err
	})
	return no, wrap(err, "number the changes")
}

// numberRows gives a number to changed rows of a table, and returns how many rows received it.
func (s *Store) numberRows(tx *gorm.DB, table, id string, no int64) (int, error) {
	pick := tx.Table(table).Where("change_no IS NULL").Limit(numberBatch)
	if !s.tidb.Load() { // TiDB accepts SKIP LOCKED, but then locks nothing
		pick = pick.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate, Options: clause.LockingOptionsSkipLocked})
	}
	var ids []string
	if err := pick.Pluck(id, &ids).Error; err != nil || len(ids) == 0 {
		return 0, err
	}
	return len(ids), tx.Exec("UPDATE "+table+" SET change_no = ? WHERE "+id+" IN ?", no, ids).Error
}

// DeferNumbering makes Number give no numbers on any node for d, up to a minute. A node calls it
// while orders wait, because numbering costs the database about as much as the orders do.
func (s *Store) DeferNumbering(ctx context.Context, d time.Duration) error {
	db := s.DB.WithContext(ctx)
	now, err := s.readTime(db)
	if err == nil {
		err = db.Exec("UPDATE feed SET not_before = ? WHERE id = 1", now.Add(min(d, maxDefer))).Error
	}
	return wrap(err, "defer the numbering of changes")
}

// A Change is the state of an order, or of a sale, in the feed. Either Order or Sale is set.
type Change struct {
	No      int64
	Order   *orders.Order
	Refunds []orders.Claim // refund claims of the order
	Sale    *orders.Sale
}

// MarshalJSON encodes the change in the form of openapi.yaml.
func (c Change) MarshalJSON() ([]byte, error) {
	if c.Sale != nil {
		return json.Marshal(struct {
			No   int64           `json:"no"`
			Kind string          `json:"kind"`
			Sale orders.SaleJSON `json:"sale"`
		}{c.No, saleKind, c.Sale.JSON()})
	}
	type order struct {
		orders.RowJSON
		Refunds []orders.ClaimJSON `json:"refunds"`
	}
	o := order{c.Order.Row(), make([]orders.ClaimJSON, len(c.Refunds))}
	for i := range c.Refunds {
		o.Refunds[i] = c.Refunds[i].JSON()
	}
	return json.Marshal(struct {
		No    int64  `json:"no"`
		Kind  string `json:"kind"`
		Order order  `json:"order"`
	}{c.No, orderKind, o})
}

// The kinds of changes. Of changes with the same number, orders come first.
const orderKind, saleKind = "order", "sale"

// place returns the place of a change in the feed.
func (c Change) place() place {
	if c.Sale != nil {
		return place{c.No, saleKind, c.Sale.SKU}
	}
	return place{c.No, orderKind, c.Order.ID}
}

// A place is the position of a change in the feed, or the position after all changes with the
// number no.
type place struct {
	no   int64
	kind string // orderKind, saleKind, or afterAll
	id   string // of the order, or SKU
}

// afterAll is greater than all kinds.
const afterAll = "z"

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.no, q.no), strings.Compare(p.kind, q.kind), strings.Compare(p.id, q.id))
}

// Changes returns up to limit changes after a cursor, in the order of their numbers, and the cursor
// after the last one. The cursor "" is before all changes. If fewer than limit changes are
// returned, the caller has read all that were numbered before the call. The answer is durable (see
// durably). A crash of the database takes back nothing that was returned.
//
// If an order changes while a caller reads the feed, its earlier state may be left out. If a failover
// of the database loses commits, changes that were returned may be undone. The feed reports such a
// row only when it changes again.
//
// Errors: *InvalidError with the field after, for a cursor of another database and for text that no
// call has returned; ErrUnavailable.
func (s *Store) Changes(ctx context.Context, after string, limit int) (changes []Change, next string, err error) {
	type head struct {
		Name string
		Last int64
		now  time.Time
	}
	type page struct {
		head
		from, to place
		changes  []Change
	}
	read, err := durably(ctx, s, feedLane, func(db *gorm.DB) (p page, err error) {
		// All numbers up to this one are visible. Rows that get a number while the statements
		// below run are left to the next call, so that none of them can be skipped.
		if err := db.Raw("SELECT name, last FROM feed WHERE id = 1").Scan(&p.head).Error; err != nil {
			return p, err
		}
		if p.now, err = s.readTime(db); err != nil {
			return p, err
		}
		if p.from, err = parsePlace(after, p.Name, max(p.Last, p.now.Add(skew).UnixMilli())); err != nil {
			return p, err
		}
		if p.to = (place{p.Last, afterAll, ""}); p.from.compare(p.to) >= 0 {
			p.to = p.from // nothing is newer, or the caller has read another server, which is ahead
			return p, nil
		}
		p.changes, err = s.changedRows(db, p.from, p.Last, limit)
		if len(p.changes) == limit {
			p.to = p.changes[limit-1].place()
		}
		return p, err
	})
	if err != nil {
		return nil, "", wrap(err, "read the changes")
	}
	return read.changes, read.to.cursor(read.Name), nil
}

// changedRows reads the changes after a place with numbers up to last.
func (s *Store) changedRows(db *gorm.DB, from place, last int64, limit int) (changes []Change, err error) {
	var rows []struct {
		orders.Order
		ChangeNo int64
	}
	after := func(table, id, kind string) *gorm.DB {
		q := db.Table(s.indexed(table, table+"_changes")).Where("change_no >= ? AND change_no <= ?", from.no, last)
		switch strings.Compare(from.kind, kind) {
		case 0:
			q = q.Where("(change_no > ? OR "+id+" > ?)", from.no, from.id)
		case 1:
			q = q.Where("change_no > ?", from.no)
		}
		return q.Order("change_no, " + id).Limit(limit)
	}
	if err := after("orders", "id", orderKind).Find(&rows).Error; err != nil {
		return nil, err
	}
	claimed := map[string]int{} // order id → index in changes
	for i := range rows {
		if rows[i].Claims > 0 {
			claimed[rows[i].ID] = i
		}
		changes = append(changes, Change{No: rows[i].ChangeNo, Order: &rows[i].Order})
	}
	if len(claimed) > 0 {
		var claims []orders.Claim
		if err := db.Where("order_id IN ?", slices.Collect(maps.Keys(claimed))).Order("order_id, created_at, payment_ref").Find(&claims).Error; err != nil {
			return nil, err
		}
		for _, c := range claims {
			at := claimed[c.OrderID]
			changes[at].Refunds = append(changes[at].Refunds, c)
		}
	}
	var sales []struct {
		orders.Sale
		ChangeNo int64
	}
	if err := after("sales", "sku", saleKind).Find(&sales).Error; err != nil {
		return nil, err
	}
	for i := range sales {
		changes = append(changes, Change{No: sales[i].ChangeNo, Sale: &sales[i].Sale})
	}
	slices.SortFunc(changes, func(a, b Change) int { return a.place().compare(b.place()) })
	return changes[:min(len(changes), limit)], nil
}

// cursor encodes a place for callers. name is the name of the database's feed.
func (p place) cursor(name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join([]string{name, strconv.FormatInt(p.no, 10), p.kind, p.id}, " ")))
}

// parsePlace decodes a cursor. It rejects a cursor of a feed with another name, and a number above
// highest.
func parsePlace(cursor, name string, highest int64) (place, error) {
	if cursor == "" {
		return place{}, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	part := strings.Split(string(raw), " ")
	if err != nil || len(part) != 4 {
		return place{}, errAfter()
	}
	no, err := strconv.ParseInt(part[1], 10, 64)
	p := place{no, part[2], part[3]}
	valid := map[string]bool{orderKind: orders.IsOrderID(p.id), saleKind: orders.IsSKU(p.id), afterAll: p.id == ""}
	if err != nil || no < 0 || no > highest || !valid[p.kind] || p.cursor(name) != cursor {
		return place{}, errAfter()
	}
	return p, nil
}

func errAfter() error {
	return &orders.InvalidError{Fields: map[string]string{"after": "must be a cursor that this installation gave out"}}
}
