package live

import (
	"maps"
	"slices"
	"time"

	"flashsale/orders"
)

// overviewTopic is the topic of the overview. No sale has an empty SKU.
const overviewTopic = ""

// maxListed bounds the sales of an overview: those that open last, and those that
// somebody watches.
const maxListed = 200

// A keeper compares a sale that moves once a second, unless its queue is too long.
const (
	justNow   = 3000 // ms
	longQueue = 100  // orders
)

// What an operator sees of all sales and nodes.
type (
	overview struct {
		ID      int64      `json:"id"`  // of the snapshot
		Now     time.Time  `json:"now"` // by the database's clock
		Sales   []saleRow  `json:"sales"`
		Nodes   []nodeView `json:"nodes"`
		All     rates      `json:"all"` // of all nodes
		Missing []string   `json:"missing"`
		Point   ratePoint  `json:"point"`  // the latest of this node's history; its time is 0 before the first
		Events  []logEntry `json:"events"` // the latest of this node's log
	}
	// A saleRow is one sale. Its figures are those that its keeper last compared, so
	// they add up, unless these are old and the sale moves. Paid is read every few seconds.
	// P99 is this node's.
	saleRow struct {
		Sale    orders.Offer `json:"sale"`
		Sold    int64        `json:"sold"`
		Paid    int64        `json:"paid"`
		Queued  int64        `json:"queued"` // orders that wait for the database
		P99     float64      `json:"p99_ms"` // of its orders in the last second; 0 where there was none
		Direct  bool         `json:"direct"`
		Keeper  string       `json:"keeper"`  // "" where no node says so
		Balance *balance     `json:"balance"` // as the keeper last found it; null where it has not compared yet
	}
	nodeView struct {
		Node  string   `json:"node"`
		Here  bool     `json:"here"` // the one that sends this
		Up    int64    `json:"up_s"`
		Keeps int      `json:"keeps"` // SKUs
		Some  []string `json:"some"`  // of them
		rates
	}
)

// withListed adds the sales of an overview to those that are watched.
func (l *Live) withListed(skus []string) []string {
	all, sales := slices.Clone(skus), l.cfg.Service.Keepers().Catalog().All() // those that open last come first
	for _, sale := range sales[:min(len(sales), maxListed)] {
		all = append(all, sale.SKU)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (l *Live) overview(offers []orders.Offer, nodes []nodeStats) overview {
	v := overview{Sales: []saleRow{}, Nodes: []nodeView{}, All: together(nodes), Missing: []string{}, Point: l.events.last()}
	paid, p99 := l.events.latest(&v)
	for i := range offers {
		o := &offers[i]
		row := saleRow{Sale: *o, Sold: o.Sold, Queued: o.Queued, P99: p99[o.SKU], Direct: o.SoldDirect()}
		for _, n := range nodes {
			if b, keeps := n.Balances[o.SKU]; keeps && b.AgeMS >= 0 {
				row.Keeper, row.Balance = n.Node, &b
			} else if keeps {
				row.Keeper = n.Node
			}
		}
		if b := row.Balance; b != nil && !row.Direct && (b.AgeMS < justNow || o.Queued < longQueue) {
			row.Sale.Total, row.Sale.Available, row.Sold = b.Total, b.Available, b.Sold
		}
		row.Paid = min(paid[o.SKU], row.Sold)
		v.Now, v.Sales = o.Now.Truncate(time.Millisecond), append(v.Sales, row)
	}
	for _, n := range nodes {
		some := append([]string{}, slices.Sorted(maps.Keys(n.Balances))...)
		v.Nodes = append(v.Nodes, nodeView{
			Node: n.Node, Here: n.Node == l.cfg.Node, Up: int64(n.Uptime / time.Second), Keeps: n.Keeps, Some: some[:min(len(some), reported)],
			rates: n.Point.rates,
		})
	}
	return v
}
