package live

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"flashsale/orders/keeper"
)

// nodeStats are what a node tells of itself, with each heartbeat.
type nodeStats struct {
	Node     string `json:"-"`
	Uptime   time.Duration
	Point    ratePoint          // what it did in the last second; zero before it has looked
	Took     []uint64           // requests in it by their time, as times.take has it
	Keeps    int                // SKUs
	Balances map[string]balance // of those, the ones that were compared last
}

// reported is how many SKUs a node tells the balance of in its heartbeat.
const reported = 20

// silence is after how long a node without a heartbeat is left out.
const silence = 3 * time.Second

// balance is a keeper's as it travels.
type balance struct {
	keeper.Balance
	AgeMS int64 `json:"age_ms"` // -1: not compared yet
}

// Stats are what this node tells the others, as text for its heartbeat.
func (l *Live) Stats() string {
	text, _ := json.Marshal(l.stats(reported)) // nothing of ours fails
	return string(text)
}

// stats returns this node's rates of the last second and the balances of up to limit
// SKUs, of those that changed last.
func (l *Live) stats(limit int) nodeStats {
	kept := l.cfg.Service.Keepers().Balances()
	s := nodeStats{Node: l.cfg.Node, Uptime: time.Since(l.started), Point: l.events.last(), Keeps: len(kept), Balances: map[string]balance{}}
	s.Took = s.Point.took
	latest := slices.SortedFunc(maps.Keys(kept), func(a, b string) int {
		return cmp.Or(kept[b].At.Compare(kept[a].At), cmp.Compare(a, b))
	})
	for _, sku := range latest[:min(len(latest), limit)] {
		b, age := kept[sku], int64(-1)
		if !b.At.IsZero() {
			age = time.Since(b.At).Milliseconds()
		}
		s.Balances[sku] = balance{b, age}
	}
	return s
}

// nodes are the stats of all nodes, by name: this one's, and the others' of
// their last heartbeat. While MySQL is down there are only this one's.
func (l *Live) nodes(ctx context.Context) []nodeStats {
	nodes := []nodeStats{l.stats(math.MaxInt)}
	rows, _ := l.cfg.Store.Nodes(ctx, silence) // the page says that MySQL is down
	for _, row := range rows {
		s := nodeStats{Node: row.ID}
		if row.ID != l.cfg.Node && json.Unmarshal([]byte(row.Stats), &s) == nil {
			nodes = append(nodes, s)
		}
	}
	slices.SortFunc(nodes, func(a, b nodeStats) int { return cmp.Compare(a.Node, b.Node) })
	return nodes
}
