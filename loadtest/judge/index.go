package judge

import (
	"slices"
	"time"
)

// Index is the evidence with lookup tables. A run has tens of thousands of requests, so
// the checks cannot search lists.
type Index struct {
	Evidence
	Outcomes  []*Outcome
	byIntent  map[Intent]*Outcome
	intentsOf map[string]int      // number of intents by buyer
	Ordered   map[string]*Outcome // first announcement by order id
	rows      map[string]Row      // first row by order id
	rowsOf    map[Intent][]Row
	repeated  []string // order ids that are listed twice
	closings  map[string][]Closing
	broken    bool      // some answer was inconclusive
	heard     time.Time // time of the last answer
	keys      map[string]bool
	visitors  struct { // rows of buyers outside the load test
		orders int
		units  int // units that the buyer's rows hold
		wanted int // units that these rows hold or may have held
	}
}

// NewIndex indexes the evidence by intent, buyer and order id.
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
		c.broken = c.broken || o.Inconclusive
		for _, id := range o.IDs {
			if c.Ordered[id] == nil {
				c.Ordered[id] = o
			}
		}
	}
	if c.lacks(Keys) {
		c.Rows = c.withKeys(e.Rows)
	}
	for _, row := range c.Rows {
		if _, ok := c.rows[row.ID]; ok {
			// Count the row once. Otherwise one fault would appear as four violations.
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
		c.broken = c.broken || c.OnPayment() && cl.Inconclusive()
	}
	return c
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// isVisitors reports whether a row belongs to a buyer outside the load test. The load
// test must know neither its buyer nor its key nor its id. Otherwise the row may be an
// order of the load test that was stored under a wrong buyer.
func (c *Index) isVisitors(row Row) bool {
	return c.Visitors && c.intentsOf[row.Buyer] == 0 && !c.keys[row.Key] && c.Ordered[row.ID] == nil
}

// stillMoving reports whether visitors keep the audit changing. Then audit and rows are from
// different moments.
func (c *Index) stillMoving() bool { return c.Unsettled != "" && c.visitors.orders > 0 }

// givenUp returns the number of orders whose outcome never became known.
func (c *Index) givenUp() (n int) {
	for _, o := range c.Outcomes {
		if !o.Known() {
			n++
		}
	}
	return n
}

// moving returns the checks that cannot be made because the sale is not at rest, although that
// breaks no promise. It returns false if there are none.
func (c *Index) moving() (Gap, bool) {
	switch {
	case c.Unsettled == "":
	case c.stillMoving():
		return Gap{[]string{Undersold, Drift, Unsettled}, "visitors keep the audit changing: " + c.Unsettled, "run again without visitors"}, true
	case c.givenUp() > 0:
		return Gap{[]string{Oversold, Undersold, Drift, Unsettled},
			"clients gave up on " + Plural(c.givenUp(), "order") + ", so the shop may still be working on them: " + c.Unsettled,
			"lower --rate, or let the clients wait longer (--timeout)"}, true
	case c.lacks(Auditing):
		return Gap{[]string{Oversold, Undersold}, "the rows keep changing: " + c.Unsettled, "find out what changes the orders after the attack, and run again"}, true
	}
	return Gap{}, false
}

// holds reports whether a row holds units of the sale.
func (c *Index) holds(row Row) bool {
	return row.Status == Paid || row.Status == Pending && !c.OnPayment()
}

// closed reports whether the client of an announced order must accept that it is
// closed. Either the server confirmed a cancellation, or a cancellation received no
// answer and the row is cancelled, or the row expired after the announced time. The
// status of the row alone is no proof: a server could break any promise by closing the
// row. If the rows could not be read, every order that may have been cancelled or may
// have expired counts as closed.
func (c *Index) closed(id string, announced *Order) bool {
	row, unread := c.rows[id], c.Unread != ""
	for _, cl := range c.closings[id] {
		if cl.Cancel && (cl.Done() || cl.Inconclusive() && (unread || row.Status == Cancelled)) {
			return true
		}
	}
	if unread && !announced.ExpiresAt.IsZero() {
		return announced.ExpiresAt.Before(c.heard)
	}
	if len(c.Lacks) > 0 && row.Status == Expired && row.ClosedAt.IsZero() { // other people's shops may not store the time
		return !announced.ExpiresAt.IsZero() && announced.ExpiresAt.Before(c.heard)
	}
	// closed_at is the start of a transaction that may commit up to MaxEffectDelay afterwards.
	return row.Status == Expired && !announced.ExpiresAt.IsZero() && !row.ClosedAt.Add(c.MaxEffectDelay).Before(announced.ExpiresAt)
}

// open calls f for each announced order that is not closed.
func (c *Index) open(f func(o *Outcome, id string)) {
	for _, o := range c.Outcomes {
		for _, id := range o.IDs {
			if !c.closed(id, c.announcing(o, id).Order) {
				f(o, id)
			}
		}
	}
}

// promises calls f for each order for which the server has promised units. If the sale
// takes units on payment, these are the orders with a confirmed payment. Otherwise they
// are the announced orders (see Request.Announces) that are not closed.
func (c *Index) promises(f func(o *Outcome, id string)) {
	if !c.OnPayment() {
		c.open(f)
		return
	}
	for _, o := range c.Outcomes {
		for _, id := range o.IDs {
			if !c.payment(o, id).ConfirmedAt.IsZero() {
				f(o, id)
			}
		}
	}
}

// announcing returns the request whose answer was the first to announce the order id.
func (c *Index) announcing(o *Outcome, id string) *Request {
	var first *Request
	for i := range o.Requests {
		if r := &o.Requests[i]; r.Announces() && r.Order.ID == id && (first == nil || r.End().Before(first.End())) {
			first = r
		}
	}
	return first
}

// idsOf returns the order ids of an intent, from announcements and rows. It leaves out
// the id of a 202: if Redis loses that order, a retry with the same key creates another
// id.
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
// names a reference, the result is about the payment with that reference.
func (c *Index) payment(o *Outcome, id string) Payment {
	closings := c.closings[id]
	if ref := c.rows[id].PaymentRef; ref != "" {
		closings = slices.DeleteFunc(slices.Clone(closings), func(cl Closing) bool { return cl.Ref != ref })
	}
	p := c.paymentOf(closings)
	for i := range o.Requests { // a lookup may show the order as paid
		if r := &o.Requests[i]; r.Announces() && r.Order.ID == id && r.Order.Status == Paid {
			p.confirm(r.End())
		}
	}
	return p
}

// PromisedAt returns the time at which the client of o received the promise for the order id:
// the announcement, or the confirmed payment if the sale takes units on payment. It is
// zero if there is none.
func (c *Index) PromisedAt(o *Outcome, id string) time.Time {
	if c.OnPayment() {
		return c.payment(o, id).ConfirmedAt
	}
	return c.announcing(o, id).End()
}

// FirstPayment returns the time at which the first payment was sent, or zero if there
// was none.
func (c *Index) FirstPayment() (first time.Time) {
	for _, cl := range c.Closings {
		if !cl.Cancel && (first.IsZero() || cl.Sent.Before(first)) {
			first = cl.Sent
		}
	}
	return first
}
