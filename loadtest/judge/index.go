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
	broken    bool      // some outcome was unknown for a while
	heard     time.Time // the time of the last answer
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
	for i := range e.Requests {
		c.heard = later(c.heard, e.Requests[i].End())
	}
	for _, cl := range e.Closings {
		c.heard = later(c.heard, cl.End())
		c.closings[cl.OrderID] = append(c.closings[cl.OrderID], cl)
		c.broken = c.broken || c.OnPayment() && cl.Unknown()
	}
	return c
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
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

// closed reports whether the client of an announced order must accept that it is closed:
// its cancellation was confirmed, or was not answered and the row is cancelled, or the
// announced time to pay is over and the row is expired. A row alone is not enough, because
// a server could deny any promise with it. If the rows could not be read, every order that
// may have been cancelled or may have expired counts as closed.
func (c *Index) closed(id string, announced *Order) bool {
	row, unread := c.rows[id], c.Unread != ""
	for _, cl := range c.closings[id] {
		if cl.Cancel && (cl.Done() || cl.Unknown() && (unread || row.Status == Cancelled)) {
			return true
		}
	}
	if unread && !announced.ExpiresAt.IsZero() {
		return announced.ExpiresAt.Before(c.heard)
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
