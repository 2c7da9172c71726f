package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

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

// reporting measures the time from the 201 of an order to the page of the feed that contains it.
func (n *node) reporting(ctx context.Context) (s sample, err error) {
	if err := n.numbered(ctx); err != nil {
		return s, err
	}
	token, err := n.l.Token("operator", true)
	if err != nil {
		return s, err
	}
	cursor := ""
	page := func(ctx context.Context, wait int) (ids []string, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL()+"/v1/admin/changes?limit=1000&after="+cursor, nil)
		if err != nil {
			return nil, err
		}
		req.Header = http.Header{"Authorization": {"Bearer " + token}, "Prefer": {fmt.Sprint("wait=", wait)}}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		defer func() { _ = res.Body.Close() }()
		var p struct {
			Changes []struct{ Order struct{ ID string } }
			Next    string
		}
		if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
			return nil, err
		}
		for _, c := range p.Changes {
			ids = append(ids, c.Order.ID)
		}
		cursor = p.Next
		return ids, nil
	}
	for ids := []string{""}; len(ids) > 0; { // pass the changes of earlier measurements
		if ids, err = page(ctx, 0); err != nil {
			return s, err
		}
	}
	sale := n.l.next("sale")
	if err := n.openSale(ctx, sale, 1, plenty); err != nil {
		return s, err
	}
	placed := make(chan error, 1)
	go func() {
		_, _, err := n.l.paced(ctx, nil, n.URL()+"/v1/orders", skusOf(sale, 1), 200, http.StatusCreated, n.meter)
		placed <- err
	}()
	seen := map[string]time.Time{}
	for done := false; !done; {
		ids, err := page(ctx, 1)
		if err != nil {
			return s, err
		}
		for _, id := range ids {
			seen[id] = time.Now()
		}
		select {
		case err := <-placed:
			if err != nil {
				return s, err
			}
			placed <- nil
			done = len(ids) == 0
		default:
		}
	}
	// created_at is the time of the gate, which is earlier than the 201.
	rows, err := n.db.QueryContext(ctx, "SELECT id, CAST(UNIX_TIMESTAMP(created_at) * 1000 AS SIGNED) FROM orders WHERE sku LIKE CONCAT(?, '-%')", sale)
	if err != nil {
		return s, err
	}
	defer func() { _ = rows.Close() }()
	var took []float64
	for rows.Next() {
		var id string
		var at int64
		if err := rows.Scan(&id, &at); err != nil {
			return s, err
		}
		if seen[id].IsZero() {
			return s, fmt.Errorf("%w: order %s is not in the feed", errCounts, id)
		}
		took = append(took, float64(seen[id].UnixMilli()-at))
	}
	slices.Sort(took)
	if err := rows.Err(); err != nil || len(took) == 0 {
		return s, fmt.Errorf("%w: no order was placed: %w", errCounts, err)
	}
	return sample{value: took[len(took)*99/100]}, nil
}
