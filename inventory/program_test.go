package inventory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
)

func Example_program() {
	server, err := miniredis.Run() // a Redis in this process, for the example
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	defer rdb.Close()
	ctx, now := context.Background(), time.Now()
	stock := inventory.View{Summary: inventory.Summary{Epoch: 1, Available: 2, Terms: inventory.Terms{
		Total: 2, UnitsPerBuyer: 1, OpensAt: now.Add(-time.Hour), ClosesAt: now.Add(time.Hour),
	}}}
	for start, buyer := range []string{"ann", "bob", "eve"} { // three starts of this program
		gate := inventory.New(rdb, inventory.Config{})
		draft := &inventory.Draft{SKU: "sneaker", Fence: 1, Attempt: 1}
		installed, err := inventory.KeeperGate{Gate: gate}.Install(ctx, draft, 0, stock) // 0: replace no gate
		if err != nil {
			panic(err)
		}
		_, err = gate.Reserve(ctx, inventory.Request{
			OrderID: fmt.Sprint("order-", start), SKU: "sneaker", Buyer: buyer, Quantity: 1,
		})
		fmt.Printf("start %d: installed %t, %s reserves: %v\n", start+1, installed, buyer, err)
	}
	// Output:
	// start 1: installed true, ann reserves: <nil>
	// start 2: installed false, bob reserves: <nil>
	// start 3: installed false, eve reserves: inventory: sold out
}
