package live

import (
	"maps"
	"slices"
	"time"

	"flashsale/orders"
	"flashsale/orders/feed/webhooks"
)

// overviewTopic is the topic of the overview. No sale has an empty SKU.
const overviewTopic = ""

// maxListed is the number of sales in an overview, without watched sales. The sales that
// open last are listed.
const maxListed = 200

// A keeper compares an active sale once a second, but not while its queue is long. An
// overview shows the balance of a sale if it is younger than justNow or if the queue is
// shorter than longQueue.
const (
	justNow   = 3000 // ms
	longQueue = 100  // orders
)

type (
	// An overview is the operators' snapshot of all sales and nodes.
	overview struct {
		ID      int64      `json:"id"`  // number of the snapshot
		Now     time.Time  `json:"now"` // the database's time
		Sales   []saleRow  `json:"sales"`
		Nodes   []nodeView `json:"nodes"`
		All     rates      `json:"all"` // sum over all nodes
		Missing []string   `json:"missing"`
		Crowd   *Crowd     `json:"crowd,omitempty"`
		Point   ratePoint  `json:"point"`  // the latest of this node; its time is 0 before the first one
		Events  []logEntry `json:"events"` // the latest of this node
		// Feed is empty if there is no feed of changes. Its first element, without a name, is the feed,
		// whose lag is the time for which changes have waited for a number.
		Feed []webhooks.State `json:"feed"`
	}
	// A saleRow describes a sale. Its figures come from the balance, so they add up.
	// If the balance is outdated, total, available and sold are read separately. Paid is
	// read every few seconds. P99 covers the orders of this node.
	saleRow struct {
		Sale    orders.Offer `json:"sale"`
		Sold    int64        `json:"sold"`
		Paid    int64        `json:"paid"`
		Queued  int64        `json:"queued"` // orders
		P99     float64      `json:"p99_ms"` // latency of the orders of the last second; 0 without orders
		Direct  bool         `json:"direct"`
		Keeper  string       `json:"keeper"`  // node; "" if no heartbeat contains the sale
		Balance *balance     `json:"balance"` // result of the keeper's last comparison; null before the first comparison
	}
	nodeView struct {
		Node  string   `json:"node"`
		Here  bool     `json:"here"` // this is the node that sends the snapshot
		Up    int64    `json:"up_s"`
		Keeps int      `json:"keeps"` // number of kept SKUs
		Some  []string `json:"some"`  // up to 20 kept SKUs
		rates
	}
)

// withListed adds the listed sales to skus.
func (l *Live) withListed(skus []string) []string {
	all, sales := slices.Clone(skus), l.cfg.Service.Controller().Catalog().All() // sorted by opening time, latest first
	for _, sale := range sales[:min(len(sales), maxListed)] {
		all = append(all, sale.SKU)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (l *Live) overview(offers []orders.Offer, nodes []nodeStats) overview {
	v := overview{Sales: []saleRow{}, Nodes: []nodeView{}, All: sumRates(nodes), Missing: []string{}, Point: l.events.last()}
	paid, p99 := l.events.latest(&v)
	if v.Feed = []webhooks.State{}; l.cfg.Feed != nil {
		v.Feed = append([]webhooks.State{{Lag: l.cfg.Feed.Lag().Seconds()}}, l.cfg.Webhooks.States()...)
	}
	for i := range offers {
		o := &offers[i]
		row := saleRow{Sale: *o, Sold: o.Sold, Queued: o.QueuedOrders, P99: p99[o.SKU], Direct: o.SoldDirect()}
		for _, n := range nodes {
			if b, keeps := n.Balances[o.SKU]; keeps && b.AgeMS >= 0 {
				row.Keeper, row.Balance = n.Node, &b
			} else if keeps {
				row.Keeper = n.Node
			}
		}
		if b := row.Balance; b != nil && !row.Direct && (b.AgeMS < justNow || o.QueuedOrders < longQueue) {
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
