package live

import (
	"encoding/json"
	"fmt"
	"time"

	"flashsale/orders"
)

// A snapshot is a sale as anybody may see it.
type snapshot struct {
	ID   int64        `json:"id"`  // one per second of this node
	Now  time.Time    `json:"now"` // by the database's clock
	Sale orders.Offer `json:"sale"`
	Sold int64        `json:"sold"` // units of open and paid orders
	// Direct: the sale is sold past Redis, which is away.
	Direct bool `json:"direct"`
	// Exact is false where the gate could not be asked: available is then what
	// the orders leave over, as far as the node knows.
	Exact   bool     `json:"exact"`
	Missing []string `json:"missing"` // stores that do not answer
	Marks   []mark   `json:"marks"`   // those of this second
}

// event is one of a stream (HTML Living Standard, 9.2: server-sent events).
func event(name string, data any) []byte {
	raw, _ := json.Marshal(data) // nothing of ours fails, and JSON has no line break outside of what it escapes
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, raw)
}
