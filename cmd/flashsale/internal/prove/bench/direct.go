package bench

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/inventory"
	"flashsale/orders/controller"
	"flashsale/orders/shop"
)

var direct = benchmark{
	name:  "direct",
	about: "orders without Redis, against a bare conditional UPDATE and an INSERT for each",
	rows:  []Row{{Item: "11", Name: "direct mode / bare UPDATE + INSERT each", Unit: "orders/s", Target: atLeast(5)}},
	run:   runDirect,
}

// nowhere is an address at which no Redis listens.
const nowhere = "127.0.0.1:1"

// runDirect measures a service without Redis, called by Config.Connections concurrent callers.
// For comparison, the same number of callers write the same two rows in a transaction for each order.
func runDirect(ctx context.Context, l *bench, rows []Row) error {
	const connections = 32 // database connections of each side
	d, err := l.openStore(ctx, connections)
	if err != nil {
		return err
	}
	d.db.SetMaxOpenConns(connections)
	d.db.SetMaxIdleConns(connections)
	logging.Disable() // go-redis would log every failed connection
	rdb := redis.NewClient(&redis.Options{Addr: nowhere, MaxRetries: -1, DialerRetries: 1})
	l.cleanup(rdb.Close)
	service := l.serve(ctx, shop.Config{
		Store: d.Store, Gate: inventory.KeeperGate{Gate: inventory.New(rdb, inventory.Config{})}, Redis: rdb,
		Direct: controller.DirectConfig{EnterAfter: 200 * time.Millisecond, MaxOrders: l.cfg.Connections},
	})
	return l.contest(ctx, rows,
		d.storing(l.cfg.Connections, 1, d.pastRedis(service)), d.storing(l.cfg.Connections, 1, d.oneByOne))
}

// pastRedis stores with Service.Place, once all sales are in direct mode.
func (d *database) pastRedis(service *shop.Service) way {
	return func(ctx context.Context, sku string) (func(context.Context, int) error, error) {
		err := lab.Until(ctx, 10*time.Millisecond, "the sale enters direct mode", func(context.Context) (bool, error) {
			return service.Controller().DirectSales() == d.sales, nil
		})
		return placeIn(service, sku), err
	}
}

// oneByOne stores with the minimum that sells a unit without overselling: a
// conditional UPDATE and an INSERT in one transaction. It checks neither the buyer's
// limit nor the idempotency key.
func (d *database) oneByOne(_ context.Context, sku string) (func(context.Context, int) error, error) {
	now := time.Now().UTC()
	return func(ctx context.Context, n int) error {
		tx, err := d.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE sales SET sold = sold + 1 WHERE sku = ? AND sold + 1 <= total", sku)
		if err == nil {
			_, err = tx.ExecContext(ctx, insertInto(1), orderRow(sku, n, now)...)
		}
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}, nil
}
