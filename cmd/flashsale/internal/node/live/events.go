package live

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"flashsale/orders"
)

// A logEntry is something that happened to a store or a sale.
type logEntry struct {
	ID   int64  `json:"id"` // counts the entries of this node
	At   int64  `json:"at"` // ms since 1970, by the node's clock
	What string `json:"what"`
	SKU  string `json:"sku"` // "" where it is not about one sale
	Says string `json:"says"`
}

const (
	maxEntries = 200
	lately     = 20 // entries that come with each overview: a slow watcher, who misses snapshots, misses none
)

// log adds what was found at one look. Where that is very much, as when each of a
// thousand sales gets another keeper, most is left out.
func (e *eventLog) log(found []logEntry) {
	if more := len(found) - lately; more > 0 {
		found = append(found[:lately-1], logEntry{What: "And more", Says: fmt.Sprintf("%d entries of this second are left out.", more+1)})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, entry := range found {
		e.lastID++
		entry.ID, entry.At = e.lastID, time.Now().UnixMilli()
		e.entries = append(e.entries[max(0, len(e.entries)-maxEntries+1):], entry)
	}
}

// A lastLook is what the node knew when it last looked.
type lastLook struct {
	looks   int
	then    time.Time
	durable int64 // orders carried into the database
	missing []string
	sales   map[string]saleSeen
	refunds map[string]bool
	paidDue time.Time
}

// lookAtStores tells which stores have gone or come back.
func (o *lastLook) lookAtStores(missing []string) (found []logEntry) {
	for id, name := range map[string]string{"redis": "Redis", "mysql": "MySQL"} {
		switch was, missingNow := slices.Contains(o.missing, id), slices.Contains(missing, id); {
		case missingNow && !was:
			found = append(found, logEntry{What: name + " away", Says: "It does not answer this node."})
		case was && !missingNow:
			found = append(found, logEntry{What: name + " back"})
		}
	}
	o.missing = missing
	return found
}

// A saleSeen is a sale at the last look, and as it was when it last stood still:
// what changes in several steps, such as a rebuild that was asked for, is one entry.
type saleSeen struct{ still, last saleMarks }

type saleMarks struct {
	total, fence, epoch, closes int64
	direct                      bool
}

// lookAtSales tells what has happened to the sales, of which this node keeps some.
func (o *lastLook) lookAtSales(sales []orders.Sale, kept []string) (found []logEntry) {
	if sales == nil { // not read yet
		return nil
	}
	seen := make(map[string]saleSeen, len(sales))
	for i := range sales {
		s := &sales[i]
		now := saleMarks{s.Total, s.Fence, s.Epoch, s.ClosesAt.UnixMilli(), s.Mode == orders.ModeDirect}
		was, known := o.sales[s.SKU]
		if !known {
			was = saleSeen{now, now}
		}
		was.still.fence, was.still.epoch = cmp.Or(was.still.fence, now.fence), cmp.Or(was.still.epoch, now.epoch) // the first ones are no event
		if was.still != now && (was.last == now || was.last.direct != now.direct) {
			found = append(found, was.still.changes(now, s.SKU, kept)...)
			was.still = now
		}
		was.last = now
		seen[s.SKU] = was
	}
	o.sales = seen
	return found
}

// changes are what has happened to a sale. The keeper and the gate that come with
// direct mode are not told.
func (was saleMarks) changes(now saleMarks, sku string, kept []string) (found []logEntry) {
	add := func(happened bool, what, text string, args ...any) {
		if happened {
			found = append(found, logEntry{What: what, SKU: sku, Says: fmt.Sprintf(text, args...)})
		}
	}
	keeper := "another node"
	if slices.Contains(kept, sku) {
		keeper = "this node"
	}
	same := was.direct == now.direct
	add(!same && now.direct, "Direct mode begun", "Orders go straight to MySQL.")
	add(!same && was.direct, "Direct mode ended", "Its gate was rebuilt.")
	add(same && now.epoch != was.epoch, "Gate rebuilt", "")
	add(same && now.fence != was.fence, "Keeper changed", "It is %s now.", keeper)
	add(now.total > was.total, "Restocked", "%d units more, %d in all.", now.total-was.total, now.total)
	add(now.total < was.total, "Cut", "%d units fewer, %d in all.", was.total-now.total, now.total)
	add(now.closes != was.closes, "Closing moved", "To %s.", time.UnixMilli(now.closes).UTC().Format("2 Jan 15:04:05 UTC"))
	return found
}

// lookAtRefunds tells which of the latest claims are new.
func (o *lastLook) lookAtRefunds(claims []orders.Claim) (found []logEntry) {
	seen := map[string]bool{}
	for _, c := range claims {
		key := c.OrderID + " " + c.PaymentRef
		if seen[key] = true; o.refunds != nil && !o.refunds[key] {
			found = append(found, logEntry{What: "Refund claimed", SKU: c.SKU, Says: fmt.Sprintf("Order %s, because of %s.", c.OrderID, c.Reason)})
		}
	}
	o.refunds = seen
	return found
}
