package drill

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"flashsale/loadtest/judge"
)

// watchEvery is the interval between two reads of the database.
const watchEvery = 50 * time.Millisecond

// A sale contains what one read of the database returned for a sale.
type sale struct {
	total, sold, limit int64
	fence, epoch       int64
	mode               string
	open               int64 // units in pending and paid orders
	rows               int64 // orders that were not rejected
	paid               int64 // paid orders
}

// A snapshot is one consistent read of the database.
type snapshot struct {
	sales  map[string]sale
	broken []string // descriptions of forbidden rows
}

// forbidden are queries that return one line of text for each row that must not exist.
var forbidden = []string{
	`SELECT CONCAT('over the limit: ', buyer, ' has ', SUM(quantity), ' units of ', sku) FROM orders
	 WHERE sku IN (?, ?, ?) AND status IN ('pending_payment', 'paid') GROUP BY sku, buyer
	 HAVING SUM(quantity) > (SELECT per_buyer_limit FROM sales WHERE sales.sku = orders.sku)`,
	`SELECT CONCAT('two orders: ', buyer, ' has ', COUNT(*), ' of ', sku, ' under the key ', idempotency_key) FROM orders
	 WHERE sku IN (?, ?, ?) GROUP BY sku, buyer, idempotency_key HAVING COUNT(*) > 1`,
	`SELECT CONCAT('taken and refunded: payment ', o.payment_ref, ' of order ', o.id) FROM orders o
	 JOIN refunds r ON r.order_id = o.id AND r.payment_ref = o.payment_ref
	 WHERE o.sku IN (?, ?, ?) AND o.status = 'paid'`,
}

// read reads the sales and the forbidden rows in one consistent snapshot.
func read(ctx context.Context, db *sql.DB, skus [skuCount]string) (_ *snapshot, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"); err != nil {
		return nil, err
	}
	// The transaction is read-only; COMMIT only frees the connection.
	defer func() { _, _ = conn.ExecContext(ctx, "COMMIT") }()

	in := []any{skus[0], skus[1], skus[2]}
	s := &snapshot{sales: map[string]sale{}}
	err = each(ctx, conn, `SELECT s.sku, s.total, s.sold, s.per_buyer_limit, s.fence, s.epoch, s.mode,
		COALESCE(SUM(CASE WHEN o.status IN ('pending_payment', 'paid') THEN o.quantity ELSE 0 END), 0),
		COALESCE(SUM(o.status <> 'rejected'), 0), COALESCE(SUM(o.status = 'paid'), 0)
		FROM sales s LEFT JOIN orders o ON o.sku = s.sku WHERE s.sku IN (?, ?, ?)
		GROUP BY s.sku`, in, func(rows *sql.Rows) error {
		var sku string
		var v sale
		err := rows.Scan(&sku, &v.total, &v.sold, &v.limit, &v.fence, &v.epoch, &v.mode, &v.open, &v.rows, &v.paid)
		s.sales[sku] = v
		return err
	})
	for _, query := range forbidden {
		if err != nil {
			return nil, err
		}
		err = each(ctx, conn, query, in, func(rows *sql.Rows) error {
			var line string
			err := rows.Scan(&line)
			s.broken = append(s.broken, line)
			return err
		})
	}
	return s, err
}

func each(ctx context.Context, conn *sql.Conn, query string, args []any, row func(*sql.Rows) error) error {
	rows, err := conn.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// judge returns what a snapshot breaks, by itself and compared with the previous one,
// which may be nil.
func (s *snapshot) judge(before *snapshot) (broken []string) {
	broken = append(broken, s.broken...)
	for sku, v := range s.sales {
		if v.sold > v.total {
			broken = append(broken, fmt.Sprintf("oversold: %s has sold %d of %d", sku, v.sold, v.total))
		}
		if v.open > v.total {
			broken = append(broken, fmt.Sprintf("oversold: the orders of %s take %d of %d units", sku, v.open, v.total))
		}
		if v.open != v.sold {
			broken = append(broken, fmt.Sprintf("miscounted: %s says %d sold, its orders take %d", sku, v.sold, v.open))
		}
		if before == nil {
			continue
		}
		was := before.sales[sku]
		for _, number := range []struct {
			name     string
			was, now int64
		}{{"fence", was.fence, v.fence}, {"epoch", was.epoch, v.epoch}, {"number of orders", was.rows, v.rows}, {"number of paid orders", was.paid, v.paid}} {
			if number.now < number.was {
				broken = append(broken, fmt.Sprintf("went back: the %s of %s, from %d to %d", number.name, sku, number.was, number.now))
			}
		}
	}
	return broken
}

// watch reads and judges the database until ctx ends.
func (a *round) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var before *snapshot
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// Write to the disk, as a commit does. While the disk is stalled, the storm's time
		// stands still.
		_, written := a.disk.WriteAt([]byte{1}, 0)
		now, err := read(ctx, a.db, a.skus)
		err = errors.Join(err, written, a.disk.Sync())
		a.reads++
		switch {
		case err != nil:
			a.failedReads++
		default:
			for _, line := range now.judge(before) {
				a.broke("%s", line)
			}
			before = now
			a.seen.Store(now)
		}
		a.state.pass(time.Since(last))
		last = time.Now()
		if before == nil {
			continue
		}
		for _, l := range a.liveness {
			v := before.sales[l.sku]
			if line := l.observe(&a.state, v.rows, v.total-v.sold); line != "" {
				a.broke("%s", line)
			}
			if v.mode == "direct" {
				a.direct.Store(true)
			}
		}
	}
}

// pass advances the storm's clock by d, but by at most twice watchEvery. A longer gap
// between two reads means that the machine, the disk or the database was busy, and must
// not count as a sale that stands still.
func (c *brokenState) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += min(d, 2*watchEvery)
}

// rows returns all orders of the sales.
func (a *round) rows(ctx context.Context) (all []judge.Row, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := a.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	in := []any{a.skus[0], a.skus[1], a.skus[2]}
	err = each(ctx, conn, `SELECT id, sku, buyer, COALESCE(idempotency_key, ''), status, COALESCE(payment_ref, ''), quantity, expires_at, paid_at, closed_at
		FROM orders WHERE sku IN (?, ?, ?)`, in, func(rows *sql.Rows) error {
		var r judge.Row
		var paid, closed sql.NullTime
		err := rows.Scan(&r.ID, &r.SKU, &r.Buyer, &r.Key, &r.Status, &r.PaymentRef, &r.Quantity, &r.ExpiresAt, &paid, &closed)
		r.PaidAt, r.ClosedAt = paid.Time, closed.Time
		all = append(all, r)
		return err
	})
	return all, err
}
