package live

import (
	"maps"
	"slices"
	"time"
)

// Requests to place an order that a node has answered since it started, by what
// became of them, and how long they took.
type Requests struct {
	Accepted int64 // 201 and 202
	Refused  int64 // 409: sold out, the buyer's limit, not open, closed
	Limited  int64 // 429
	Failed   int64 // 5xx
	// Took counts requests by time: Took[i] those of at most Bounds[i] seconds,
	// all smaller ones included; the last those that took longer.
	Bounds []float64
	Took   []uint64
}

// counts are what a node tells the others of itself.
type counts struct {
	Node   string
	Uptime time.Duration // by the node's own clock, so that others' don't matter
	Requests
	Durable  int64              // orders carried into the database
	Keeps    int                // SKUs
	Some     []string           // of them, the first few
	Balances map[string]balance // of those asked for that it keeps
}

// someKept is how many SKUs a node names of those that it keeps.
const someKept = 20

// balance is orders.Balance as it travels.
type balance struct {
	Total     int64 `json:"total"`
	Available int64 `json:"available"`
	Queued    int64 `json:"queued"`
	Sold      int64 `json:"sold"`
	Restoring int64 `json:"restoring"`
	Drift     int64 `json:"drift"`
	AgeMS     int64 `json:"age_ms"`
}

// count is what this node has counted, with the balances of these SKUs.
func (l *Live) count(skus map[string]bool) counts {
	done := l.cfg.Service.Counters()
	kept := l.cfg.Service.Balances()
	c := counts{
		Node: l.cfg.Node, Uptime: time.Since(l.started), Requests: l.cfg.Requests(),
		Durable: done.Drained.Load() + done.DirectPlaced.Load(),
		Keeps:   len(kept), Some: slices.Sorted(maps.Keys(kept)), Balances: map[string]balance{},
	}
	c.Some = c.Some[:min(len(c.Some), someKept)]
	for sku := range skus {
		if b, keeps := kept[sku]; keeps {
			age := int64(-1) // not compared yet
			if !b.At.IsZero() {
				age = time.Since(b.At).Milliseconds()
			}
			c.Balances[sku] = balance{b.Total, b.Available, b.Queued, b.Sold, b.Restoring, b.Drift, age}
		}
	}
	return c
}
