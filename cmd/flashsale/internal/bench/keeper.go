package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
)

var keeper = benchmark{
	name:  "keeper",
	about: "the keeper's transaction, against one bare INSERT of the same rows",
	rows: []Row{
		{Item: "5a", Name: "keeper / bare insert, 500 rows each", Unit: "rows/s", Target: atLeast(0.85)},
		{Item: "5b", Name: "keeper / bare insert, 128 rows each", Unit: "rows/s", Target: atLeast(0.85)},
	},
	run: runKeeper,
}

// keeperBatches are the keeper's own bound, and about what comes together
// under 256 connections.
var keeperBatches = []int{500, 128}

func runKeeper(ctx context.Context, l *lab, rows []Row) (err error) {
	db, dsn, closeDB, err := l.openMySQL(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDB()) }()
	store, err := orders.Open(dsn, orders.StoreConfig{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := store.Migrate(ctx); err != nil {
		return err
	}
	for i, batch := range keeperBatches {
		kept := func(ctx context.Context) (sample, error) { return l.keep(ctx, store, db, batch) }
		bare := func(ctx context.Context) (sample, error) { return l.insert(ctx, db, batch) }
		if err := l.warm(ctx, kept, bare); err != nil {
			return err
		}
		if err := l.compare(ctx, &rows[i], kept, bare); err != nil {
			return err
		}
	}
	return nil
}

// inBatches calls carry with batches of n until the time is over, and returns
// the rows per second. The rows of a batch are numbered from first.
func (l *lab) inBatches(n int, carry func(first int) error) (rows int, s sample, err error) {
	stop := meter{app: os.Getpid(), mysql: l.mysql.Pid()}.start()
	start := time.Now()
	end := start.Add(time.Duration(l.cfg.Seconds) * time.Second)
	for ; time.Now().Before(end); rows += n {
		if err := carry(rows); err != nil {
			return rows, sample{}, err
		}
	}
	return rows, sample{value: float64(rows) / time.Since(start).Seconds(), cpu: stop(float64(rows))}, nil
}

// orderNumber gives the order and its buyer the names they have in both.
func orderNumber(run, n int) (id, buyer, key string) {
	return fmt.Sprintf("00000000-%04d-7000-8000-%012d", run, n), fmt.Sprintf("buyer-%d", n), fmt.Sprintf("key-%d", n)
}

const fingerprint = "0123456789abcdef0123456789abcdef"

// keep measures Store.Commit, which is all that a keeper does in the database
// for an order: the row lock, the fence, the judgement, the rows, the count.
func (l *lab) keep(ctx context.Context, store *orders.Store, db *sql.DB, batch int) (sample, error) {
	run, sku := l.serial, l.next("kept")
	now := time.Now().UTC()
	if err := newSale(ctx, store, sku); err != nil {
		return sample{}, err
	}
	sale, err := store.TakeOver(ctx, sku)
	if err != nil {
		return sample{}, err
	}
	rows, s, err := l.inBatches(batch, func(first int) error {
		queue := make([]inventory.Queued, batch)
		for i := range queue {
			id, buyer, key := orderNumber(run, first+i)
			queue[i] = inventory.Queued{OrderID: id, Buyer: buyer, Quantity: 1, Key: key, Fingerprint: fingerprint, At: now}
		}
		_, err := store.Commit(ctx, sku, sale.Fence, queue)
		return err
	})
	if err != nil {
		return sample{}, err
	}
	return s, checkRows(ctx, db, sku, rows)
}

// insert measures the same rows in the same table, in one statement each batch
// that is its own transaction: prepared once, which is the quickest way.
func (l *lab) insert(ctx context.Context, db *sql.DB, batch int) (sample, error) {
	run, sku := l.serial, l.next("bare")
	columns := []string{
		"id", "sku", "buyer", "quantity", "amount", "currency", "status", "reason", "idempotency_key", "request_hash",
		"payment_ref", "created_at", "expires_at", "paid_at", "closed_at", "restored_at",
	}
	one := "(?" + strings.Repeat(",?", len(columns)-1) + ")"
	statement, err := db.PrepareContext(ctx, "INSERT INTO orders ("+strings.Join(columns, ",")+") VALUES "+
		one+strings.Repeat(","+one, batch-1))
	if err != nil {
		return sample{}, fmt.Errorf("prepare the bare insert: %w", err)
	}
	defer func() { _ = statement.Close() }()
	now := time.Now().UTC()
	rows, s, err := l.inBatches(batch, func(first int) error {
		args := make([]any, 0, batch*len(columns))
		for i := range batch {
			id, buyer, key := orderNumber(run, first+i)
			args = append(args, id, sku, buyer, 1, 1999, "EUR", "pending_payment", "", key, fingerprint,
				nil, now, now.Add(15*time.Minute), nil, nil, nil)
		}
		_, err := statement.ExecContext(ctx, args...)
		return err
	})
	if err != nil {
		return sample{}, err
	}
	return s, checkRows(ctx, db, sku, rows)
}

func checkRows(ctx context.Context, db *sql.DB, sku string, want int) error {
	var have int
	err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM orders WHERE sku = ? AND status = 'pending_payment'", sku).Scan(&have)
	if err == nil && have != want {
		err = fmt.Errorf("%w: %d rows carried over, %d are in the database", errCounts, want, have)
	}
	return err
}
