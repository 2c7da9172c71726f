package live

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"flashsale/orders"
)

// A logEntry is an event of a store or a sale.
type logEntry struct {
	ID   int64  `json:"id"` // counts the entries of this node
	At   int64  `json:"at"` // ms since 1970, by the node's clock, or the database's for a mark of a sale
	What string `json:"what"`
	SKU  string `json:"sku"` // "" for events of a store
	Text string `json:"says"`
}

// english formats like fmt, with separators in large numbers: 1,000.
var english = message.NewPrinter(language.English)

// units returns a sentence about n units: one, or many with the number.
func units(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return english.Sprintf(many, n)
}

const (
	maxEntries = 200
	repeated   = 20 // latest entries in each overview, so that a client that misses snapshots misses no entry
)

// log adds the entries of one second. If there are more than repeated, further entries are left
// out, as when a thousand sales get new keepers at once.
func (e *eventLog) log(found []logEntry) {
	if more := len(found) - repeated; more > 0 {
		found = append(found[:repeated-1], logEntry{What: "And more", Text: english.Sprintf("%d entries of this second are left out.", more+1)})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, entry := range found {
		e.lastID++
		entry.ID, entry.At = e.lastID, cmp.Or(entry.At, time.Now().UnixMilli())
		e.entries = append(e.entries[max(0, len(e.entries)-maxEntries+1):], entry)
	}
}

// observed holds the state at the previous call of observeOnce.
type observed struct {
	count   int // number of calls
	at      time.Time
	durable int64 // orders that this node has committed
	missing []string
	sales   map[string]saleState
	refunds map[string]bool // by order id and payment reference
	paidDue time.Time       // time of the next query of paid units
}

// storeEvents returns events for stores that stopped or resumed responding.
func (o *observed) storeEvents(missing []string) (found []logEntry) {
	for id, name := range map[string]string{"redis": "Redis", "mysql": "MySQL"} {
		switch was, missingNow := slices.Contains(o.missing, id), slices.Contains(missing, id); {
		case missingNow && !was:
			found = append(found, logEntry{What: name + " away", Text: "It does not answer this node."})
		case was && !missingNow:
			found = append(found, logEntry{What: name + " back"})
		}
	}
	o.missing = missing
	return found
}

// A saleState holds the state of a sale at the previous call and its last stable state. A
// state is stable if two successive calls observe it. Events are changes between stable
// states, so a change in several steps, such as a requested rebuild, is one event.
type saleState struct{ stable, last saleVersion }

type saleVersion struct {
	total, fence, epoch, closes int64
	direct                      bool
}

// saleEvents returns the events of the sales at a time of the database's clock. kept are the SKUs
// that this node keeps.
func (o *observed) saleEvents(sales []orders.Sale, kept []string, at time.Time) (found []logEntry) {
	if sales == nil { // the node has not read the sales yet
		return nil
	}
	states := make(map[string]saleState, len(sales))
	for i := range sales {
		s := &sales[i]
		now := saleVersion{s.Total, s.Fence, s.Epoch, s.ClosesAt.UnixMilli(), s.Mode == orders.ModeDirect}
		was, known := o.sales[s.SKU]
		if !known {
			was = saleState{now, now}
		}
		// The first fence and the first epoch of a sale are no events.
		was.stable.fence, was.stable.epoch = cmp.Or(was.stable.fence, now.fence), cmp.Or(was.stable.epoch, now.epoch)
		if was.stable != now && (was.last == now || was.last.direct != now.direct) {
			found = append(found, was.stable.changes(now, s.SKU, kept, at)...)
			was.stable = now
		}
		was.last = now
		states[s.SKU] = was
	}
	o.sales = states
	return found
}

// changes returns the events between two states of a sale. Direct mode also changes fence
// and epoch, which is no separate event. If an operator has closed the sale, markEvents has
// returned "Closed", after which "Closing moved" would be confusing.
func (was saleVersion) changes(now saleVersion, sku string, kept []string, at time.Time) (found []logEntry) {
	add := func(happened bool, what, text string, args ...any) {
		if happened {
			found = append(found, logEntry{What: what, SKU: sku, Text: english.Sprintf(text, args...)})
		}
	}
	keeper := "another node"
	if slices.Contains(kept, sku) {
		keeper = "this node"
	}
	sameMode := was.direct == now.direct
	add(!sameMode && now.direct, "Direct mode begun", "Orders go straight to MySQL.")
	add(!sameMode && was.direct, "Direct mode ended", "Its gate was rebuilt.")
	add(sameMode && now.epoch != was.epoch, "Gate rebuilt", "")
	add(sameMode && now.fence != was.fence, "Keeper changed", "It is %s now.", keeper)
	add(now.total > was.total, "Restocked", "%s more, %d in all.", units(now.total-was.total, "1 unit", "%d units"), now.total)
	add(now.total < was.total, "Cut", "%s fewer, %d in all.", units(was.total-now.total, "1 unit", "%d units"), now.total)
	add(now.closes != was.closes && now.closes > at.UnixMilli(), "Closing moved", "To %s.", time.UnixMilli(now.closes).UTC().Format("2 Jan 2006 15:04:05 UTC"))
	return found
}

// markEvents returns the events of sales that opened, sold out or closed. saleEvents returns the
// other changes of sales.
func markEvents(marks map[string][]mark) (found []logEntry) {
	for _, sku := range slices.Sorted(maps.Keys(marks)) {
		for _, m := range marks[sku] {
			entry := logEntry{At: m.At, SKU: sku}
			switch m.What {
			case "opened":
				entry.What, entry.Text = "Opened", units(m.Units, "1 unit is on sale.", "%d units are on sale.")
			case "sold_out":
				entry.What, entry.Text = "Sold out", "No unit is left."
			case "closed":
				entry.What, entry.Text = "Closed", units(m.Units, "1 unit is left.", "%d units are left.")
			default:
				continue
			}
			found = append(found, entry)
		}
	}
	return found
}

// refundEvents returns an event for each new claim.
func (o *observed) refundEvents(claims []orders.Claim) (found []logEntry) {
	seen := map[string]bool{}
	for _, c := range claims {
		key := c.OrderID + " " + c.PaymentRef
		if seen[key] = true; o.refunds != nil && !o.refunds[key] {
			found = append(found, logEntry{What: "Refund claimed", SKU: c.SKU, Text: fmt.Sprintf("Order %s: %s.", c.OrderID, strings.ReplaceAll(string(c.Reason), "_", " "))})
		}
	}
	o.refunds = seen
	return found
}
