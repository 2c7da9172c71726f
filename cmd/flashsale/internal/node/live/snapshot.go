package live

import (
	"encoding/json"
	"fmt"
	"time"

	"flashsale/orders"
)

// A snapshot is the public state of a sale.
type snapshot struct {
	ID   int64        `json:"id"`  // increases by 1 per snapshot of this node
	Now  time.Time    `json:"now"` // by the database's clock
	Sale orders.Offer `json:"sale"`
	Sold int64        `json:"sold"` // units of open and paid orders
	// Direct reports whether the sale is in direct mode.
	Direct bool `json:"direct"`
	// Exact is false if the gate did not respond. Then Sale.Available is computed from
	// the orders that the node knows.
	Exact   bool     `json:"exact"`
	Missing []string `json:"missing"`         // stores that do not respond
	Marks   []mark   `json:"marks"`           // marks of this second
	Crowd   *Crowd   `json:"crowd,omitempty"` // nil outside of a demo, and without a crowd
}

// A Crowd describes the running crowd of a demo. The crowd may buy from a sale that the snapshot
// does not describe.
type Crowd struct {
	SKU   string    `json:"sku"`
	Until time.Time `json:"until"` // end of the crowd, in the database's time
}

// event encodes a server-sent event (HTML Living Standard, section 9.2).
func event(name string, data any) []byte {
	raw, _ := json.Marshal(data) // all types here encode, and JSON escapes line breaks
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, raw)
}
