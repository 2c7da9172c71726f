package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"flashsale/inventory"
	"flashsale/orders"
)

var direct = benchmark{
	name:  "direct",
	about: "orders while Redis is gone, against a bare conditional UPDATE and an INSERT for each",
	rows:  []Row{{Item: "11", Name: "direct way / bare UPDATE + INSERT each", Unit: "orders/s", Target: atLeast(0.5)}},
	run:   runDirect,
}

// nowhere is where no Redis listens.
const nowhere = "127.0.0.1:1"

// runDirect has a service whose Redis is gone sell to as many callers at once
// as wrk has connections elsewhere, and as many callers write the same two rows.
func runDirect(ctx context.Context, l *lab, rows []Row) (err error) {
	db, dsn, closeDB, err := l.openMySQL(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDB()) }()
	const connections = 32 // the store's
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	store, err := orders.Open(dsn, orders.StoreConfig{Connections: connections})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := store.Migrate(ctx); err != nil {
		return err
	}
	redis.SetLogger(mute{})
	rdb := redis.NewClient(&redis.Options{Addr: nowhere, MaxRetries: -1, DialerRetries: 1})
	defer func() { err = errors.Join(err, rdb.Close()) }()
	service := orders.New(orders.Config{
		Store: store, Gate: inventory.New(rdb, inventory.Config{}), Redis: rdb,
		Direct: orders.DirectConfig{After: 200 * time.Millisecond, Line: l.cfg.Connections},
		Log:    slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	selling, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- service.Run(selling) }()
	defer func() { stop(); err = errors.Join(err, <-stopped) }()

	ours := func(ctx context.Context) (sample, error) { return l.pastRedis(ctx, store, service, db) }
	bare := func(ctx context.Context) (sample, error) { return l.oneByOne(ctx, store, db) }
	if err := l.warm(ctx, ours, bare); err != nil {
		return err
	}
	return l.compare(ctx, &rows[0], ours, bare)
}

// mute drops go-redis's lines about the Redis that is gone.
type mute struct{}

func (mute) Printf(context.Context, string, ...any) {}

// atOnce has so many callers order one after the other until the time is over,
// and returns how many did. The buyers are numbered.
func (l *lab) atOnce(ctx context.Context, order func(ctx context.Context, n int) error) (placed int, s sample, err error) {
	stop := meter{app: os.Getpid(), mysql: l.mysql.Pid()}.start()
	start := time.Now()
	end := start.Add(time.Duration(l.cfg.Seconds) * time.Second)
	var buyers, done atomic.Int64
	callers, ctx := errgroup.WithContext(ctx)
	for range l.cfg.Connections {
		callers.Go(func() error {
			for time.Now().Before(end) {
				if err := order(ctx, int(buyers.Add(1))); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	if err := callers.Wait(); err != nil {
		return 0, sample{}, err
	}
	n := float64(done.Load())
	return int(n), sample{value: n / time.Since(start).Seconds(), cpu: stop(n)}, nil
}

// newSale puts an open sale into the database.
func newSale(ctx context.Context, store *orders.Store, sku string) error {
	now := time.Now().UTC()
	_, err := store.PutSale(ctx, orders.Sale{
		SKU: sku, Name: "Bench", Price: 1999, Currency: "EUR", Total: plenty, PerBuyerLimit: 1,
		OpensAt: now.Add(-time.Hour), ClosesAt: now.Add(time.Hour), PaymentWindowS: 900,
	})
	return err
}

// pastRedis measures the whole of Service.Place.
func (l *lab) pastRedis(ctx context.Context, store *orders.Store, service *orders.Service, db *sql.DB) (sample, error) {
	had, sku := service.DirectSales(), l.next("direct")
	if err := newSale(ctx, store, sku); err != nil {
		return sample{}, err
	}
	within, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := poll(within, 10*time.Millisecond, func() (bool, error) { return service.DirectSales() > had, nil }); err != nil {
		return sample{}, fmt.Errorf("the direct way is not entered: %w", err)
	}
	placed, s, err := l.atOnce(ctx, func(ctx context.Context, n int) error {
		_, buyer, key := orderNumber(0, n)
		_, err := service.Place(ctx, orders.Placement{Buyer: buyer, SKU: sku, Quantity: 1, Key: key})
		return err
	})
	if err != nil {
		return sample{}, err
	}
	return s, checkRows(ctx, db, sku, placed)
}

// oneByOne measures the least that sells a unit without overselling: a
// conditional UPDATE and the INSERT in one transaction. It knows neither a
// buyer's limit nor what a key was used for.
func (l *lab) oneByOne(ctx context.Context, store *orders.Store, db *sql.DB) (sample, error) {
	run, sku := l.serial, l.next("bare")
	if err := newSale(ctx, store, sku); err != nil {
		return sample{}, err
	}
	columns := []string{
		"id", "sku", "buyer", "quantity", "amount", "currency", "status", "idempotency_key", "request_hash", "created_at", "expires_at",
	}
	insert := "INSERT INTO orders (" + strings.Join(columns, ",") + ") VALUES (?" + strings.Repeat(",?", len(columns)-1) + ")"
	now := time.Now().UTC()
	placed, s, err := l.atOnce(ctx, func(ctx context.Context, n int) error {
		id, buyer, key := orderNumber(run, n)
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE sales SET sold = sold + 1 WHERE sku = ? AND sold + 1 <= total", sku)
		if err == nil {
			_, err = tx.ExecContext(ctx, insert, id, sku, buyer, 1, 1999, "EUR", "pending_payment", key, fingerprint, now, now.Add(15*time.Minute))
		}
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	})
	if err != nil {
		return sample{}, err
	}
	return s, checkRows(ctx, db, sku, placed)
}
