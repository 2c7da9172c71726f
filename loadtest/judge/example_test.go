package judge_test

import (
	"fmt"
	"time"

	"flashsale/loadtest/judge"
)

// A shop sold its only unit to two buyers. The evidence consists of their answers, the
// rows of the shop's database and its audit.
func ExampleJudge() {
	sold := func(buyer, id string) judge.Order {
		return judge.Order{ID: id, SKU: "sneaker", Buyer: buyer, Quantity: 1, Status: judge.Pending}
	}
	ann, bob := sold("ann", "o-1"), sold("bob", "o-2")
	begin := time.Now()
	accepted := func(o judge.Order, after time.Duration) judge.Request {
		return judge.Request{
			Kind: judge.First, Buyer: o.Buyer, Key: "k-" + o.Buyer, Quantity: 1,
			Sent: begin.Add(after), Latency: time.Millisecond,
			Answer: judge.Answer{Status: 201, Order: &o, Location: "/v1/orders/" + o.ID},
		}
	}

	v := judge.Judge(judge.Evidence{
		SKU: "sneaker", Total: 1, UnitsPerBuyer: 1,
		Requests: []judge.Request{accepted(ann, 0), accepted(bob, time.Second)},
		Rows:     []judge.Row{{Order: ann, Key: "k-ann"}, {Order: bob, Key: "k-bob"}},
		Audit:    judge.Audit{SKU: "sneaker", Total: 1, Available: -1, Sold: 2, Pending: 2, Oversold: 1},
	})
	for _, broken := range v.Violations {
		fmt.Printf("%s: %d\n", broken.Name, broken.Count)
	}
	fmt.Println("exit status", v.ExitCode())
	// Output:
	// oversold: 1
	// history: 1
	// exit status 1
}
