package bench

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/orders"
	"flashsale/orders/shop"
	"flashsale/orders/store"
)

// This file has stores, a service and callers for benchmarks that call the packages
// directly.

// A database is a new one with the tables of package orders.
type database struct {
	*store.Store
	l     *bench
	db    *sql.DB
	sales int // sales created so far
}

func (l *bench) openStore(ctx context.Context, connections int) (*database, error) {
	db, dsn, err := l.openMySQL(ctx)
	if err != nil {
		return nil, err
	}
	st, err := store.Open(dsn, store.Config{Connections: connections})
	if err != nil {
		return nil, err
	}
	l.cleanup(st.Close)
	_, err = st.Migrate(ctx)
	return &database{Store: st, l: l, db: db}, err
}

// serve runs an order service in this process.
func (l *bench) serve(ctx context.Context, c shop.Config) *shop.Service {
	c.Log = slog.New(slog.DiscardHandler)
	s := shop.New(c)
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Run(ctx) }()
	l.cleanup(func() error { cancel(); return <-stopped })
	return s
}

// placeIn returns a function that places the n-th order in a sale.
func placeIn(service *shop.Service, sku string) func(ctx context.Context, n int) error {
	return func(ctx context.Context, n int) error {
		_, buyer, key := orderNumber(n)
		_, err := service.Place(ctx, shop.Placement{Buyer: buyer, SKU: sku, Quantity: 1, Key: key})
		return err
	}
}

// call runs a number of concurrent callers while wanted returns true. Each caller
// repeats do for a batch of orders, numbered from first. Order numbers are unique in
// a run. call returns how many orders were done.
func (l *bench) call(ctx context.Context, callers, batch int, wanted func() bool, do func(ctx context.Context, first int) error) (int, error) {
	var done atomic.Int64
	calling, ctx := errgroup.WithContext(ctx)
	for range callers {
		calling.Go(func() error {
			for wanted() {
				if err := do(ctx, int(l.orders.Add(int64(batch)))-batch); err != nil {
					return err
				}
				done.Add(int64(batch))
			}
			return nil
		})
	}
	err := calling.Wait()
	return int(done.Load()), err
}

// atOnce runs call for the time of a measurement. Its figure is orders per second.
func (l *bench) atOnce(ctx context.Context, callers, batch int, m meter, do func(ctx context.Context, first int) error) (int, sample, error) {
	stop := m.start()
	start := time.Now()
	end := start.Add(time.Duration(l.cfg.Seconds) * time.Second)
	done, err := l.call(ctx, callers, batch, func() bool { return time.Now().Before(end) }, do)
	n := float64(done)
	return done, sample{value: n / time.Since(start).Seconds(), cpu: stop(n)}, err
}

// meter returns a meter without Redis.
func (d *database) meter() meter { return meter{os.Getpid(), 0, d.l.Stores.MySQL.Pid()} }

// A way stores orders. For a new sale it returns a function that stores a batch of
// orders, numbered from first. Callers repeat that function.
type way func(ctx context.Context, sku string) (do func(ctx context.Context, first int) error, err error)

// storing measures callers that store orders, and checks that each order is a row.
func (d *database) storing(callers, batch int, in way) measure {
	return func(ctx context.Context) (sample, error) {
		sku, err := d.newSale(ctx)
		if err != nil {
			return sample{}, err
		}
		do, err := in(ctx, sku)
		if err != nil {
			return sample{}, err
		}
		placed, s, err := d.l.atOnce(ctx, callers, batch, d.meter(), do)
		if err != nil {
			return sample{}, err
		}
		var have int
		err = d.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM orders WHERE sku = ? AND status = 'pending_payment'", sku).Scan(&have)
		if err == nil && have != placed {
			err = fmt.Errorf("%w: got %d rows in the database, want %d", errCounts, have, placed)
		}
		return s, err
	}
}

// newSale creates an open sale in the database.
func (d *database) newSale(ctx context.Context) (sku string, err error) {
	sku = d.l.next("sale")
	d.sales++
	now := time.Now().UTC()
	_, err = d.PutSale(ctx, orders.Sale{
		SKU: sku, Name: "Bench", Price: 1999, Currency: "EUR", Total: plenty, UnitsPerBuyer: 1,
		OpensAt: now.Add(-time.Hour), ClosesAt: now.Add(time.Hour), PaymentWindowS: 900,
	})
	return sku, err
}

// orderNumber returns the id, buyer and key of the n-th order.
func orderNumber(n int) (id, buyer, key string) {
	return fmt.Sprintf("00000000-0000-7000-8000-%012d", n), fmt.Sprintf("buyer-%d", n), fmt.Sprintf("key-%d", n)
}

const fingerprint = "0123456789abcdef0123456789abcdef"

const orderColumns = "id,sku,buyer,quantity,amount,currency,status,reason,idempotency_key,request_hash," +
	"payment_ref,created_at,expires_at,paid_at,closed_at,restored_at"

// insertInto returns a statement that inserts rows without checks.
func insertInto(rows int) string {
	one := "(?" + strings.Repeat(",?", strings.Count(orderColumns, ",")) + ")"
	return "INSERT INTO orders (" + orderColumns + ") VALUES " + one + strings.Repeat(","+one, rows-1)
}

// orderRow returns the values of one row, an order of a new buyer.
func orderRow(sku string, n int, at time.Time) []any {
	id, buyer, key := orderNumber(n)
	return []any{id, sku, buyer, 1, 1999, "EUR", "pending_payment", "", key, fingerprint, nil, at, at.Add(15 * time.Minute), nil, nil, nil}
}
