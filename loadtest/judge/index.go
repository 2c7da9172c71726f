package judge

import (
	"slices"
	"time"
)

// Index is the evidence, indexed: a run has tens of thousands of requests, and
// each check would have to search them all.
type Index struct {
	Evidence
	Outcomes  []*Outcome
	byIntent  map[Intent]*Outcome
	intentsOf map[string]int      // by buyer
	Ordered   map[string]*Outcome // by order id, as announced
	rows      map[string]Row      // by order id
	rowsOf    map[Intent][]Row
	repeated  []string // ids listed twice
	closings  map[string][]Closing
	broken    bool // some outcome was unknown for a while
	keys      map[string]bool
	visitors  struct { // rows of other people, where there may be any
		orders int
		units  int // that they hold
		wanted int // that they hold, or may have held for a while
	}
}

// NewIndex sorts the evidence by buyer, order and key.
func NewIndex(e Evidence) *Index {
	c := &Index{
		Evidence: e, Outcomes: e.outcomes(),
		byIntent: map[Intent]*Outcome{}, intentsOf: map[string]int{}, Ordered: map[string]*Outcome{}, rows: map[string]Row{},
		rowsOf: map[Intent][]Row{}, closings: map[string][]Closing{}, keys: map[string]bool{},
	}
	for _, o := range c.Outcomes {
		c.byIntent[o.Intent] = o
		c.intentsOf[o.Buyer]++
		c.keys[o.Key] = true
		c.broken = c.broken || o.Doubted
		for _, id := range o.IDs {
			if c.Ordered[id] == nil {
				c.Ordered[id] = o
			}
		}
	}
	for _, row := range e.Rows {
		if _, ok := c.rows[row.ID]; ok {
			// Count the row once, or one fault would look like four.
			c.repeated = append(c.repeated, row.ID)
			continue
		}
		c.rows[row.ID] = row
		a := Intent{row.Buyer, row.Key}
		c.rowsOf[a] = append(c.rowsOf[a], row)
		if c.isVisitors(row) {
			c.visitors.orders++
			if c.holds(row) {
				c.visitors.units += row.Quantity
			}
			if c.holds(row) || !c.OnPayment() {
				c.visitors.wanted += row.Quantity
			}
		}
	}
	for _, cl := range e.Closings {
		c.closings[cl.OrderID] = append(c.closings[cl.OrderID], cl)
		c.broken = c.broken || c.OnPayment() && cl.Unknown()
	}
	return c
}

// isVisitors says whether a row is another person's: neither its buyer nor its
// key nor its id is known to the load test. The row of an order that was stored
// under a wrong buyer is not.
func (c *Index) isVisitors(row Row) bool {
	return c.Visitors && c.intentsOf[row.Buyer] == 0 && !c.keys[row.Key] && c.Ordered[row.ID] == nil
}

// moving says whether visitors keep the sale in motion, so that its audit and its
// rows are of different moments.
func (c *Index) moving() bool { return c.Unsettled != "" && c.visitors.orders > 0 }

// holds says whether a row has units of the sale.
func (c *Index) holds(row Row) bool {
	return row.Status == Paid || row.Status == Pending && !c.OnPayment()
}

// closed says whether the client of an announced order must accept that it is
// closed: its cancellation was confirmed, or went unanswered and the row is
// cancelled, or the order's announced time has run out unpaid. A row alone is
// not enough: a server could deny any promise with it.
func (c *Index) closed(id string, announced *Order) bool {
	row := c.rows[id]
	for _, cl := range c.closings[id] {
		if cl.Cancel && (cl.Done() || cl.Unknown() && row.Status == Cancelled) {
			return true
		}
	}
	// Of a transaction that lasts, closed_at is the beginning.
	return row.Status == Expired && !announced.ExpiresAt.IsZero() && !row.ClosedAt.Add(c.Late).Before(announced.ExpiresAt)
}

// open calls f for each announced order that was never closed.
func (c *Index) open(f func(o *Outcome, id string)) {
	for _, o := range c.Outcomes {
		for _, id := range o.IDs {
			if !c.closed(id, c.announcing(o, id).Order) {
				f(o, id)
			}
		}
	}
}

// promises calls f for each order whose client was promised units and has not
// given them back.
func (c *Index) promises(f func(o *Outcome, id string)) {
	if !c.OnPayment() {
		c.open(f)
		return
	}
	for _, o := range c.Outcomes {
		for _, id := range o.IDs {
			if !c.payment(o, id).Told.IsZero() {
				f(o, id)
			}
		}
	}
}

// announcing is the request whose answer first announced an order.
func (c *Index) announcing(o *Outcome, id string) *Request {
	var first *Request
	for i := range o.Requests {
		if r := &o.Requests[i]; r.Announces() && r.Order.ID == id && (first == nil || r.End().Before(first.End())) {
			first = r
		}
	}
	return first
}

// lastHeard is when the last answer came in.
func (c *Index) lastHeard() (last time.Time) {
	for i := range c.Requests {
		if end := c.Requests[i].End(); end.After(last) {
			last = end
		}
	}
	for _, cl := range c.Closings {
		if end := cl.End(); end.After(last) {
			last = end
		}
	}
	return last
}

// idsOf lists the order ids of an intent, announced or stored. The id of a 202
// is not one of them: when Redis loses that order, the same key makes another.
func (c *Index) idsOf(o *Outcome) []string {
	ids := slices.Clone(o.IDs)
	for _, row := range c.rowsOf[o.Intent] {
		if !slices.Contains(ids, row.ID) {
			ids = append(ids, row.ID)
		}
	}
	return ids
}

// payment returns what the client of o knows about the payment of the order. If the row
// of the order names a reference, the result is about the payment with that reference.
func (c *Index) payment(o *Outcome, id string) Payment {
	closings := c.closings[id]
	if ref := c.rows[id].PaymentRef; ref != "" {
		closings = slices.DeleteFunc(slices.Clone(closings), func(cl Closing) bool { return cl.Ref != ref })
	}
	p := c.paymentOf(closings)
	for i := range o.Requests { // a lookup says it as well
		if r := &o.Requests[i]; r.Announces() && r.Order.ID == id && r.Order.Status == Paid {
			p.hears(r.End())
		}
	}
	return p
}

// Yes is when the client of o first heard that its order id is stored, or paid
// where units are taken on payment. Zero: never.
func (c *Index) Yes(o *Outcome, id string) time.Time {
	if c.OnPayment() {
		return c.payment(o, id).Told
	}
	return c.announcing(o, id).End()
}

// FirstPayment is when the first call to pay was sent, zero if none was.
func (c *Index) FirstPayment() (first time.Time) {
	for _, cl := range c.Closings {
		if !cl.Cancel && (first.IsZero() || cl.Sent.Before(first)) {
			first = cl.Sent
		}
	}
	return first
}
