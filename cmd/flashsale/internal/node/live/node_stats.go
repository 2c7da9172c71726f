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

// nodeStats are the statistics of a node. A heartbeat row contains them as JSON.
type nodeStats struct {
	Node     string `json:"-"`
	Uptime   time.Duration
	Point    ratePoint          // rates of the last second; zero before the first one
	Took     []uint64           // response times of that second, as times.take returns them
	Keeps    int                // number of kept SKUs
	Balances map[string]balance // balances of the most recently compared SKUs
}

// reported is the maximum number of balances in a heartbeat.
const reported = 20

// silence is the age of a heartbeat from which on its node is left out.
const silence = 3 * time.Second

// A balance is a keeper.Balance with its age instead of a time.
type balance struct {
	keeper.Balance
	AgeMS int64 `json:"age_ms"` // -1: not compared yet
}

// Stats returns the statistics of this node for its heartbeat, as JSON.
func (l *Live) Stats() string {
	text, _ := json.Marshal(l.stats(reported)) // nodeStats always encodes
	return string(text)
}

// stats returns the statistics of this node with at most limit balances.
func (l *Live) stats(limit int) nodeStats {
	kept := l.cfg.Service.Controller().Balances()
	s := nodeStats{Node: l.cfg.Node, Uptime: time.Since(l.started), Point: l.events.last(), Keeps: len(kept), Balances: map[string]balance{}}
	s.Took = s.Point.took
	latest := slices.SortedFunc(maps.Keys(kept), func(a, b string) int {
		return cmp.Or(kept[b].ComparedAt.Compare(kept[a].ComparedAt), cmp.Compare(a, b))
	})
	for _, sku := range latest[:min(len(latest), limit)] {
		b, age := kept[sku], int64(-1)
		if !b.ComparedAt.IsZero() {
			age = time.Since(b.ComparedAt).Milliseconds()
		}
		s.Balances[sku] = balance{b, age}
	}
	return s
}

// nodes returns the statistics of all nodes, sorted by name. The statistics of other nodes come
// from heartbeats, so they are missing while MySQL is down.
func (l *Live) nodes(ctx context.Context) []nodeStats {
	nodes := []nodeStats{l.stats(math.MaxInt)}
	rows, _ := l.cfg.Store.LiveNodes(ctx, silence) // on an error, overview.Missing contains MySQL
	for _, row := range rows {
		s := nodeStats{Node: row.ID}
		if row.ID != l.cfg.Node && json.Unmarshal([]byte(row.Stats), &s) == nil {
			nodes = append(nodes, s)
		}
	}
	slices.SortFunc(nodes, func(a, b nodeStats) int { return cmp.Compare(a.Node, b.Node) })
	return nodes
}
