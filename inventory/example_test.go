package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
)

// The gate alone, with all that somebody has to do who keeps the orders
// elsewhere: open it with what the database says, take units, carry what is
// queued to the database, and give units back.
func Example() {
	ctx := context.Background()
	server, err := servers.StartMiniRedis(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	defer func() { _ = rdb.Close() }()
	gate := inventory.Keeping{Gate: inventory.New(rdb, inventory.Config{})}

	// Fence and epoch are the database's to issue: the fence to whoever keeps the
	// SKU, a new epoch for each time that the gate is built.
	const fence, epoch = 1, 1
	stock := inventory.View{Summary: inventory.Summary{Epoch: epoch, Available: 3, Terms: inventory.Terms{
		Total: 3, PerBuyer: 2, OpensAt: time.Now().Add(-time.Hour), ClosesAt: time.Now().Add(time.Hour),
	}}}
	draft := &inventory.Draft{SKU: "sneaker", Fence: fence, Attempt: 1}
	open, err := gate.Install(ctx, draft, 0, stock)
	fmt.Println("open:", open, err)

	// The hot path. Callers of the same moment share one script call.
	for i, buyer := range []string{"ann", "bob", "bob", "eve"} {
		_, err := gate.Reserve(ctx, inventory.Request{
			OrderID: fmt.Sprint("order-", i+1), SKU: "sneaker", Buyer: buyer, Quantity: 1, Key: fmt.Sprint("click-", i+1),
		})
		fmt.Println(buyer, "reserves:", err)
	}
	again, err := gate.Reserve(ctx, inventory.Request{
		OrderID: "order-5", SKU: "sneaker", Buyer: "ann", Quantity: 1, Key: "click-1",
	})
	fmt.Println("ann clicks twice:", again.OrderID, again.Replayed, err)

	// The keeper: insert these rows in one transaction, and then take them off.
	queued, err := gate.Queue(ctx, "sneaker", "", 500)
	if err != nil {
		fmt.Println(err)
		return
	}
	left, err := gate.Ack(ctx, "sneaker", queued, nil)
	fmt.Println("rows to insert:", len(queued), "left in the queue:", left, err)

	// An order was cancelled in the database. However often its units are given
	// back, they come back once.
	for range 2 {
		units, err := gate.Release(ctx, "sneaker", epoch, []string{"order-1"})
		fmt.Println("units back on sale:", units, err)
	}

	// The gate has been rebuilt meanwhile: who knows an older one is refused.
	_, err = gate.Release(ctx, "sneaker", epoch-1, []string{"order-2"})
	fmt.Println("another epoch:", errors.Is(err, inventory.ErrEpoch))

	// Output:
	// open: true <nil>
	// ann reserves: <nil>
	// bob reserves: <nil>
	// bob reserves: <nil>
	// eve reserves: inventory: sold out
	// ann clicks twice: order-1 true <nil>
	// rows to insert: 3 left in the queue: 0 <nil>
	// units back on sale: 1 <nil>
	// units back on sale: 0 <nil>
	// another epoch: true
}
