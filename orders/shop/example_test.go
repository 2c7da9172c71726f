package shop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/orders"
	"flashsale/orders/shop"
	"flashsale/orders/store"
)

// A program runs a node without HTTP. The node has a gate, keepers, expiry and repairs. Any
// number of these nodes may share the stores.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stores, err := servers.StartEmbedded(ctx) // a real program has the URL of a Redis and the DSN of a MySQL
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = stores.Close() }()
	st, err := store.Open(stores.SQL, store.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = st.Close() }()
	if _, err := st.Migrate(ctx); err != nil {
		fmt.Println(err)
		return
	}
	rdb := redis.NewClient(&redis.Options{Addr: stores.Mini.Addr, ContextTimeoutEnabled: true})
	defer func() { _ = rdb.Close() }()

	sh := shop.New(shop.Config{
		Store: st, Gate: inventory.KeeperGate{Gate: inventory.New(rdb, inventory.Config{})}, Redis: rdb,
		Wait: time.Minute, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	stopped := make(chan error)
	go func() { stopped <- sh.Run(ctx) }()

	sale := orders.Sale{
		SKU: "sneaker", Name: "Sneaker", Price: 12900, Currency: "EUR", Total: 2, UnitsPerBuyer: 1,
		OpensAt: time.Now().Add(-time.Hour), ClosesAt: time.Now().Add(time.Hour), PaymentWindowS: 900,
	}
	for {
		// ErrUnavailable means that the database has the sale, but the gate did not have it
		// in time. Repeating the call is safe.
		if _, _, err = sh.PutSale(ctx, sale); !errors.Is(err, orders.ErrUnavailable) {
			break
		}
	}
	fmt.Println("on sale:", err)

	ann, err := sh.Place(ctx, shop.Placement{Buyer: "ann", SKU: "sneaker", Quantity: 1, Key: "click-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ann:", ann.Order.Status)
	again, err := sh.Place(ctx, shop.Placement{Buyer: "ann", SKU: "sneaker", Quantity: 1, Key: "click-1"})
	fmt.Println("ann clicks twice:", again.Replayed, again.Order.ID == ann.Order.ID, err)
	_, err = sh.Place(ctx, shop.Placement{Buyer: "ann", SKU: "sneaker", Quantity: 1, Key: "click-2"})
	fmt.Println("ann wants another:", errors.Is(err, inventory.ErrBuyerLimit))

	paid, err := sh.Pay(ctx, "ann", ann.Order.ID, "card-4711")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ann:", paid.Status, paid.Amount, paid.Currency)

	cancel()
	fmt.Println("handed over:", <-stopped)

	// Output:
	// on sale: <nil>
	// ann: pending_payment
	// ann clicks twice: true true <nil>
	// ann wants another: true
	// ann: paid 12900 EUR
	// handed over: <nil>
}
