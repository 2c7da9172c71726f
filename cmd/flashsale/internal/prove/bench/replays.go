package bench

import (
	"context"
	"fmt"
	"time"
)

var replays = benchmark{
	name:  "replays",
	about: "lookups of durable orders by repeated keys, against a read and a commit for each",
	rows:  []Row{{Item: "17", Name: "durable replays / a read and a commit each", Unit: "replays/s", Target: atLeast(4)}},
	run:   runReplays,
}

// replayed is the number of orders that callers ask for in turn.
const replayed = 1000

// runReplays measures Store.Lookup, whose callers share reads and barriers. For comparison, each
// caller reads its order and commits one write to a row of its own.
func runReplays(ctx context.Context, l *bench, rows []Row) error {
	const connections = 32 // database connections of each side
	d, err := l.openStore(ctx, connections)
	if err != nil {
		return err
	}
	d.db.SetMaxOpenConns(connections)
	d.db.SetMaxIdleConns(connections)
	sku, err := d.newSale(ctx)
	if err != nil {
		return err
	}
	var args []any
	for n := range replayed {
		args = append(args, orderRow(sku, n, time.Now().UTC())...)
	}
	if _, err := d.db.ExecContext(ctx, insertInto(replayed), args...); err != nil {
		return fmt.Errorf("insert the orders to be looked up: %w", err)
	}
	replaying := func(look func(ctx context.Context, n int, buyer, key string) (found string, err error)) measure {
		return func(ctx context.Context) (sample, error) {
			_, s, err := d.l.atOnce(ctx, l.cfg.Connections, 1, d.meter(), func(ctx context.Context, n int) error {
				want, buyer, key := orderNumber(n % replayed)
				found, err := look(ctx, n, buyer, key)
				if err == nil && found != want {
					err = fmt.Errorf("%w: got order %s under %s, want %s", errCounts, found, key, want)
				}
				return err
			})
			return s, err
		}
	}
	shared := func(ctx context.Context, _ int, buyer, key string) (string, error) {
		o, _, err := d.Lookup(ctx, sku, buyer, key)
		if err != nil || o == nil {
			return "", err
		}
		return o.ID, nil
	}
	each := func(ctx context.Context, n int, buyer, key string) (id string, err error) {
		err = d.db.QueryRowContext(ctx, "SELECT id FROM orders WHERE sku = ? AND buyer = ? AND idempotency_key = ?", sku, buyer, key).Scan(&id)
		if err == nil {
			_, err = d.db.ExecContext(ctx, "INSERT INTO nodes (id, seen_at, barrier) VALUES (?, '2000-01-01', 1)"+
				" ON DUPLICATE KEY UPDATE barrier = barrier + 1", fmt.Sprint("caller-", n%l.cfg.Connections))
		}
		return id, err
	}
	return l.contest(ctx, rows, replaying(shared), replaying(each))
}
