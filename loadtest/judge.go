package loadtest

import "slices"

// Judge compares what the clients were told with what the server has. It is a
// pure function: the same evidence, the same verdict.
func Judge(e Evidence) Verdict {
	c := newCase(e)
	v := Verdict{Total: e.Total, Gaps: slices.Clone(e.Gaps)}
	if e.Unread != "" {
		v.Gaps = append(v.Gaps, Gap{[]string{Undersold, Lost, Unannounced, Drift}, e.Unread})
	} else {
		v.Available, v.Held, v.Restoring = e.Audit.Available, e.Audit.Held, e.Audit.Restoring
		c.count(&v)
	}

	// What clients were told is judged even when nothing else could be read.
	c.oversold(&v)
	c.undersold(&v)
	c.overLimit(&v)
	if e.Unread == "" {
		c.lost(&v)
		c.unannounced(&v)
		c.drift(&v)
	}
	c.duplicates(&v)
	c.answers(&v)
	c.explained(&v)
	if e.Unsettled != "" {
		v.violation(Unsettled, 1, "The sale did not come to rest: %s; last seen available %d, held %d, restoring %d, sold %d.",
			e.Unsettled, e.Audit.Available, e.Audit.Held, e.Audit.Restoring, e.Audit.Sold)
	}
	c.exercised(&v)
	return v
}

// file is the evidence, indexed: a run has tens of thousands of requests, and
// every check would search them all.
type file struct {
	Evidence
	asks     []*outcome
	byAsk    map[ask]*outcome
	asksOf   map[string]int      // by buyer
	ordered  map[string]*outcome // by order id, as announced
	rows     map[string]Row      // by order id
	rowsOf   map[ask][]Row
	repeated []string // ids listed twice
	closings map[string][]Closing
	broken   bool // some outcome was unknown for a while
}

func newCase(e Evidence) *file {
	c := &file{
		Evidence: e, asks: outcomes(e.Requests),
		byAsk: map[ask]*outcome{}, asksOf: map[string]int{}, ordered: map[string]*outcome{}, rows: map[string]Row{},
		rowsOf: map[ask][]Row{}, closings: map[string][]Closing{},
	}
	for _, o := range c.asks {
		c.byAsk[o.ask] = o
		c.asksOf[o.buyer]++
		c.broken = c.broken || o.doubted
		for _, id := range o.ids {
			if c.ordered[id] == nil {
				c.ordered[id] = o
			}
		}
	}
	for _, row := range e.Rows {
		if _, ok := c.rows[row.ID]; ok {
			// Not counted twice: one fault should not look like four.
			c.repeated = append(c.repeated, row.ID)
			continue
		}
		c.rows[row.ID] = row
		a := ask{row.Buyer, row.Key}
		c.rowsOf[a] = append(c.rowsOf[a], row)
	}
	for _, cl := range e.Closings {
		c.closings[cl.OrderID] = append(c.closings[cl.OrderID], cl)
		c.broken = c.broken || c.onPayment() && cl.unknown()
	}
	return c
}

// count sums the rows by status.
func (c *file) count(v *Verdict) {
	for _, row := range c.rows {
		switch row.Status {
		case Pending:
			if !c.onPayment() {
				v.Pending += row.Quantity
			}
		case Paid:
			v.Paid += row.Quantity
		case Cancelled:
			v.Cancelled += row.Quantity
		case Expired:
			v.Expired += row.Quantity
		case Rejected:
			v.Rejected += row.Quantity
		}
		if row.Status != Rejected {
			v.Durable++
		}
	}
}

// closed says whether the client of an announced order has to regard it as
// closed: it was told that its cancellation worked, or does not know and the
// row says so, or the order's announced time has run out unpaid. A row alone
// closes nothing, or a server could talk its way out of any promise.
func (c *file) closed(id string, announced *Order) bool {
	row := c.rows[id]
	for _, cl := range c.closings[id] {
		if cl.Cancel && (cl.done() || cl.unknown() && row.Status == Cancelled) {
			return true
		}
	}
	return row.Status == Expired && !announced.ExpiresAt.IsZero() && !row.ClosedAt.Before(announced.ExpiresAt)
}

// open calls f for every announced order that was never closed.
func (c *file) open(f func(o *outcome, id string)) {
	for _, o := range c.asks {
		for _, id := range o.ids {
			if !c.closed(id, c.announcement(o, id)) {
				f(o, id)
			}
		}
	}
}

// promises calls f for every order whose units its client was promised and has
// not given back.
func (c *file) promises(f func(o *outcome, id string)) {
	if !c.onPayment() {
		c.open(f)
		return
	}
	for _, o := range c.asks {
		for _, id := range o.ids {
			if !c.payment(o, id).told.IsZero() {
				f(o, id)
			}
		}
	}
}

// announcement is the order as first announced under id.
func (c *file) announcement(o *outcome, id string) *Order {
	for i := range o.requests {
		if r := &o.requests[i]; r.announces() && r.Order.ID == id {
			return r.Order
		}
	}
	return nil
}

// exercised lists the checks that this run never put to the test.
func (c *file) exercised(v *Verdict) {
	var soldOut, replay, second, cancelled bool
	for _, o := range c.asks {
		for _, r := range o.requests {
			// Fresh buyers always end in sold_out. Only the attack fights for
			// the last unit, and that is where gates break.
			soldOut = soldOut || r.Attack && r.Code == "sold_out" && !c.onPayment()
			second = second || r.Kind == Second && r.Code == "buyer_limit"
			// A replay tests something once the order has been announced.
			replay = replay || o.announced != nil && r.Kind == Replay && !r.Sent.Before(o.announced.End()) && r.announces()
		}
	}
	for _, cl := range c.Closings {
		cancelled = cancelled || cl.Cancel && cl.done()
		if o := c.ordered[cl.OrderID]; o != nil && o.requests[0].Attack && !cl.Cancel {
			soldOut = soldOut || cl.Code == "sold_out"
			second = second || cl.Code == "buyer_limit"
		}
	}
	note := func(ok bool, what string) {
		if !ok {
			v.Unexercised = append(v.Unexercised, what)
		}
	}
	// A violation of the same kind is proof enough that it was put to the test.
	taking := "order"
	if c.onPayment() {
		taking = "payment"
	}
	note(soldOut, "sell-out: no "+taking+" of the attack heard sold_out")
	note(replay || v.WrongAnswers > 0, "replay: no key of an accepted order was answered again")
	note(second || v.OverLimit > 0, "second order: nobody was refused by, or got past, the buyer's limit")
	note(cancelled, "cancellation: no order was cancelled")
}
