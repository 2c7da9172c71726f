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

// The example shows the gate alone, and all calls that a program with its own store of
// orders needs: it opens the gate, takes units, moves queued orders to the database, and
// releases units.
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
	gate := inventory.KeeperGate{Gate: inventory.New(rdb, inventory.Config{})}

	// The database issues the fence to the keeper of the SKU, and a new epoch for each
	// gate.
	const fence, epoch = 1, 1
	stock := inventory.View{Summary: inventory.Summary{Epoch: epoch, Available: 3, Terms: inventory.Terms{
		Total: 3, UnitsPerBuyer: 2, OpensAt: time.Now().Add(-time.Hour), ClosesAt: time.Now().Add(time.Hour),
	}}}
	draft := &inventory.Draft{SKU: "sneaker", Fence: fence, Attempt: 1}
	open, err := gate.Install(ctx, draft, 0, stock)
	fmt.Println("open:", open, err)

	// Concurrent callers share one script call.
	for i, buyer := range []string{"ann", "bob", "bob", "eve"} {
		_, err := gate.Reserve(ctx, inventory.Request{
			OrderID: fmt.Sprint("order-", i+1), SKU: "sneaker", Buyer: buyer, Quantity: 1, Key: fmt.Sprint("click-", i+1),
		})
		fmt.Println(buyer, "reserves:", err)
	}
	replay, err := gate.Reserve(ctx, inventory.Request{
		OrderID: "order-5", SKU: "sneaker", Buyer: "ann", Quantity: 1, Key: "click-1",
	})
	fmt.Println("ann clicks twice:", replay.OrderID, replay.Replayed, err)

	// The keeper inserts these rows in one transaction and then removes them from the
	// queue.
	queued, err := gate.ReadQueue(ctx, "sneaker", "", 500)
	if err != nil {
		fmt.Println(err)
		return
	}
	left, err := gate.Ack(ctx, "sneaker", queued, nil)
	fmt.Println("rows to insert:", len(queued), "left in the queue:", left, err)

	// An order was cancelled in the database. Its units are released once, however
	// often the call is repeated.
	for range 2 {
		units, err := gate.ReleaseHolds(ctx, "sneaker", epoch, []string{"order-1"})
		fmt.Println("units released:", units, err)
	}

	// A keeper that names the epoch of an older gate is refused.
	_, err = gate.ReleaseHolds(ctx, "sneaker", epoch-1, []string{"order-2"})
	fmt.Println("another epoch:", errors.Is(err, inventory.ErrEpoch))

	// Output:
	// open: true <nil>
	// ann reserves: <nil>
	// bob reserves: <nil>
	// bob reserves: <nil>
	// eve reserves: inventory: sold out
	// ann clicks twice: order-1 true <nil>
	// rows to insert: 3 left in the queue: 0 <nil>
	// units released: 1 <nil>
	// units released: 0 <nil>
	// another epoch: true
}
