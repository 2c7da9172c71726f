package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/loadtest/report"
)

var changes = benchmark{
	name:  "changes",
	about: "durable orders while changes are numbered for the feed, against the same without; numbering and reading alone",
	needs: wrkProgram,
	rows: []Row{
		{Item: "18a", Name: "durable orders with / without the feed of changes", Unit: "orders/s"},
		{Item: "18b", Name: "changes numbered, without a pause", Unit: "rows/s", Target: Target{Bound: 10_000, AtLeast: true, Absolute: true}},
		{Item: "18c", Name: "changes read in pages of 1,000", Unit: "rows/s", Target: Target{Bound: 30_000, AtLeast: true, Absolute: true}},
		{Item: "18d", Name: "p99 from a 201 to the feed, 200/s", Unit: "ms", Target: atMost(300)},
	},
	run: runChanges,
}

func runChanges(ctx context.Context, l *bench, rows []Row) error {
	with, err := l.startNode(ctx, "--changes")
	if err != nil {
		return err
	}
	without, err := l.startNode(ctx)
	if err != nil {
		return err
	}
	if err := l.contest(ctx, rows[:1], with.sellingWithFeed(), without.selling("")); err != nil {
		return err
	}
	d, err := l.openStore(ctx, 0)
	if err != nil {
		return err
	}
	for i, alone := range []measure{d.numbering, d.reading, with.reporting} {
		samples, err := l.alternate(ctx, rows[i+1].Unit, alone)
		if err != nil {
			return err
		}
		rows[i+1].fill(samples[0], nil)
	}
	return nil
}

// sellingWithFeed is selling with the number of rows that were numbered meanwhile. It begins when
// all earlier rows have numbers.
func (n *node) sellingWithFeed() measure {
	selling := n.selling("")
	numbered := func(ctx context.Context) (rows float64, err error) {
		err = n.db.QueryRowContext(ctx, "SELECT COUNT(change_no) FROM orders").Scan(&rows)
		return rows, err
	}
	return func(ctx context.Context) (s sample, err error) {
		if err := n.numbered(ctx); err != nil {
			return s, err
		}
		rows, err := growth(func() (err error) { s, err = selling(ctx); return err }, func() (float64, error) { return numbered(ctx) })
		s.note = strings.TrimPrefix(s.note+"; ", "; ") + fmt.Sprintf("in a measurement %s rows were numbered meanwhile", report.Figure(rows))
		return s, err
	}
}

// numbered waits until all rows have numbers.
func (n *node) numbered(ctx context.Context) error {
	for {
		var waiting bool
		err := n.db.QueryRowContext(ctx, "SELECT EXISTS(SELECT 1 FROM orders WHERE change_no IS NULL)").Scan(&waiting)
		if err != nil || !waiting {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// numberedRows is the number of rows that numbering and reading measure.
const numberedRows = 20_000

// numbering measures Store.Number without its pause.
func (d *database) numbering(ctx context.Context) (s sample, err error) {
	sku, err := d.newSale(ctx)
	if err != nil {
		return s, err
	}
	const page = 1000
	for range numberedRows / page {
		var args []any
		for range page {
			args = append(args, orderRow(sku, int(d.l.orders.Add(1))-1, time.Now().UTC())...)
		}
		if _, err := d.db.ExecContext(ctx, insertInto(page), args...); err != nil {
			return s, fmt.Errorf("insert the orders to be numbered: %w", err)
		}
	}
	stop, began := d.meter().start(), time.Now()
	for {
		if _, err := d.db.ExecContext(ctx, "UPDATE feed SET numbered_at = '2000-01-01'"); err != nil {
			return s, err
		}
		if _, err := d.Number(ctx); err != nil {
			return s, err
		}
		if state, err := d.FeedState(ctx); err != nil || state.Waiting == 0 {
			return sample{value: numberedRows / time.Since(began).Seconds(), cpu: stop(numberedRows)}, err
		}
	}
}

// reading measures a consumer that reads all changes, encoded as the API encodes them.
func (d *database) reading(ctx context.Context) (s sample, err error) {
	stop, began, read, cursor := d.meter().start(), time.Now(), 0.0, ""
	for {
		page, next, err := d.Changes(ctx, cursor, 1000)
		if err == nil {
			_, err = json.Marshal(page)
		}
		if read, cursor = read+float64(len(page)), next; err != nil || len(page) < 1000 {
			return sample{value: read / time.Since(began).Seconds(), cpu: stop(read)}, err
		}
	}
}

// reporting measures the time from the gate's acceptance of an order to the page of the feed that
// contains the order.
func (n *node) reporting(ctx context.Context) (s sample, err error) {
	if err := n.numbered(ctx); err != nil {
		return s, err
	}
	token, err := n.l.Token("operator", true)
	if err != nil {
		return s, err
	}
	feed := api.New(n.URL(), token)
	end, err := readAll(ctx, feed, "", func(string) {})
	if err != nil {
		return s, err
	}
	sale := n.l.next("sale")
	if err := n.openSale(ctx, sale, 1, plenty); err != nil {
		return s, err
	}
	seen, reading := map[string]time.Time{}, make(chan error, 1)
	beside, enough := context.WithCancel(ctx)
	defer enough()
	go func() {
		var err error
		for err == nil && beside.Err() == nil {
			end, err = readAll(ctx, feed, end, func(id string) { seen[id] = time.Now() })
		}
		reading <- err
	}()
	_, _, err = n.l.paced(ctx, nil, n.URL()+"/v1/orders", skusOf(sale, 1), 200, http.StatusCreated, n.meter)
	err = errors.Join(err, n.numbered(ctx))
	enough()
	if err = errors.Join(err, <-reading); err != nil {
		return s, err
	}
	took, err := n.sinceAccepted(ctx, sale, seen)
	if err != nil || len(took) == 0 {
		return s, fmt.Errorf("%w: %d orders were reported: %w", errCounts, len(took), err)
	}
	slices.Sort(took)
	return sample{value: took[len(took)*99/100]}, nil
}

// readAll reads the feed to its end, which it waits for up to a second, and returns the cursor there.
func readAll(ctx context.Context, feed *api.Client, after string, report func(id string)) (string, error) {
	for {
		page, err := feed.Changes(ctx, after, 1000, time.Second)
		if err != nil {
			return after, err
		}
		for _, raw := range page.Changes {
			var c struct{ Order struct{ ID string } }
			if err := json.Unmarshal(raw, &c); err != nil {
				return after, err
			}
			report(c.Order.ID)
		}
		if after = page.Next; len(page.Changes) == 0 {
			return after, nil
		}
	}
}

// sinceAccepted returns the milliseconds from the acceptance of each order of a sale to the time at
// which it was seen.
func (n *node) sinceAccepted(ctx context.Context, sale string, seen map[string]time.Time) (took []float64, err error) {
	rows, err := n.db.QueryContext(ctx, "SELECT id, CAST(UNIX_TIMESTAMP(created_at) * 1000 AS SIGNED) FROM orders WHERE sku LIKE CONCAT(?, '-%')", sale)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		var at int64
		if err := rows.Scan(&id, &at); err != nil {
			return nil, err
		}
		if seen[id].IsZero() {
			return nil, fmt.Errorf("%w: order %s is not in the feed", errCounts, id)
		}
		took = append(took, float64(seen[id].UnixMilli()-at))
	}
	return took, rows.Err()
}
