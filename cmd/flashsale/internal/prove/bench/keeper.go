package bench

import (
	"context"
	"fmt"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
)

var keeperRows = benchmark{
	name:  "keeper",
	about: "the keeper's transaction, against one bare INSERT of the same rows",
	rows: []Row{
		{Item: "5a", Name: "keeper / bare insert, 500 rows each", Unit: "rows/s", Target: atLeast(0.7)},
		{Item: "5b", Name: "keeper / bare insert, 128 rows each", Unit: "rows/s", Target: atLeast(0.6)},
	},
	run: runKeeper,
}

// keeperBatches are the keeper's largest batch, and about the size that 256
// connections produce.
var keeperBatches = []int{500, 128}

func runKeeper(ctx context.Context, l *bench, rows []Row) error {
	d, err := l.openStore(ctx, 0)
	if err != nil {
		return err
	}
	for i, batch := range keeperBatches {
		if err := l.contest(ctx, rows[i:i+1], d.storing(1, batch, d.keep(batch)), d.storing(1, batch, d.insert(batch))); err != nil {
			return err
		}
	}
	return nil
}

// queue returns a batch of orders in the form in which the gate queues them.
func queue(first, n int, at time.Time) []inventory.QueuedOrder {
	batch := make([]inventory.QueuedOrder, n)
	for i := range batch {
		id, buyer, key := orderNumber(first + i)
		batch[i] = inventory.QueuedOrder{OrderID: id, Buyer: buyer, Quantity: 1, Key: key, Fingerprint: fingerprint, AcceptedAt: at}
	}
	return batch
}

// keep stores with Store.Commit, the complete transaction of a keeper: row lock,
// fence, decision, rows and count.
func (d *database) keep(batch int) way {
	return func(ctx context.Context, sku string) (func(context.Context, int) error, error) {
		sale, err := d.TakeOver(ctx, sku)
		if err != nil {
			return nil, err
		}
		now := time.Now().UTC()
		return func(ctx context.Context, first int) error {
			_, err := d.Commit(ctx, sku, sale.Fence, queue(first, batch, now))
			return err
		}, nil
	}
}

// insert stores the same rows with one prepared INSERT per batch, each its own
// transaction. It is the fastest way.
func (d *database) insert(batch int) way {
	return func(ctx context.Context, sku string) (func(context.Context, int) error, error) {
		statement, err := d.db.PrepareContext(ctx, insertInto(batch)) //nolint:sqlclosecheck // cleanup closes it
		if err != nil {
			return nil, fmt.Errorf("prepare the insert statement of the counterpart: %w", err)
		}
		d.l.cleanup(statement.Close)
		now := time.Now().UTC()
		return func(ctx context.Context, first int) error {
			var args []any
			for i := range batch {
				args = append(args, orderRow(sku, first+i, now)...)
			}
			_, err := statement.ExecContext(ctx, args...)
			return err
		}, nil
	}
}

var hoarder = benchmark{
	name:  "hoarder",
	about: "the keeper's transaction with a buyer of 100,000 old orders in each batch, against the same without that buyer",
	rows:  []Row{{Item: "15", Name: "commit beside 100,000 old orders / without", Unit: "ms", Target: Target{Bound: 1.2}}},
	run:   runHoarder,
}

const (
	oldOrders    = 100_000 // old orders of the one buyer
	hoarderBatch = 30      // about the batch size at 1,000 orders a second
)

func runHoarder(ctx context.Context, l *bench, rows []Row) error {
	d, err := l.openStore(ctx, 0)
	if err != nil {
		return err
	}
	sku, err := d.newSale(ctx)
	if err != nil {
		return err
	}
	if err := d.hoard(ctx, sku); err != nil {
		return err
	}
	sale, err := d.TakeOver(ctx, sku)
	if err != nil {
		return err
	}
	commits := func(beside bool) measure {
		return func(ctx context.Context) (sample, error) { return d.commits(ctx, sale, beside) }
	}
	return l.contest(ctx, rows, commits(true), commits(false))
}

// hoard inserts the hoarder's old orders, which are cancelled.
func (d *database) hoard(ctx context.Context, sku string) error {
	const page = 1000
	now := time.Now().UTC()
	for done := 0; done < oldOrders; done += page {
		var args []any
		for range page {
			row := orderRow(sku, int(d.l.orders.Add(1))-1, now)
			row[2], row[6], row[15] = "hoarder", "cancelled", now // buyer, status, restored_at
			args = append(args, row...)
		}
		if _, err := d.db.ExecContext(ctx, insertInto(page), args...); err != nil {
			return fmt.Errorf("insert old orders of %s: %w", sku, err)
		}
	}
	return nil
}

// commits measures the average duration of a transaction. If hoarder is true, the hoarder
// makes the last order of each batch. All other orders have new buyers.
func (d *database) commits(ctx context.Context, sale *orders.Sale, hoarder bool) (sample, error) {
	now := time.Now().UTC()
	_, s, err := d.l.atOnce(ctx, 1, hoarderBatch, d.meter(), func(ctx context.Context, first int) error {
		batch := queue(first, hoarderBatch, now)
		if hoarder {
			batch[hoarderBatch-1].Buyer = "hoarder"
		}
		_, err := d.Commit(ctx, sale.SKU, sale.Fence, batch)
		return err
	})
	s.value = hoarderBatch * 1e3 / s.value // converts orders per second to ms per batch
	return s, err
}
