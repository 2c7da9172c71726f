package loadtest

import "time"

// Where a sale takes units on payment, an order that is announced is durable and
// promises no units: ordering may go on beyond the total. The promise is "paid",
// and everything about units is judged by that: by what was told to those who
// paid, by rows that are paid, by an audit in which nothing is pending. So is
// the buyer's limit. A no to a payment leaves its order as it was.

func (e *Evidence) onPayment() bool { return e.ReserveOn == OnPayment }

// holds says whether a row has units of the sale.
func (c *file) holds(row Row) bool {
	return row.Status == Paid || row.Status == Pending && !c.onPayment()
}

// payment is what became of an order's payment, as far as its client knows. All
// calls have the same reference, and stand for one payment.
type payment struct {
	asked   time.Time // when it was first sent; zero: never
	told    time.Time // when the client first heard "paid"; zero: never
	refused bool      // finally: no answer that came later leaves it open
	doubted bool      // some answer was unknown, even if a later one settled it
}

// fold adds up the closings of one order.
func (p *payment) fold(closings []Closing) {
	var doubt time.Time // when the latest unknown answer was given up
	for _, cl := range closings {
		if cl.Cancel {
			continue
		}
		if p.asked.IsZero() || cl.Sent.Before(p.asked) {
			p.asked = cl.Sent
		}
		switch {
		case cl.done():
			p.hears(cl.End())
		case cl.unknown() && cl.End().After(doubt):
			p.doubted, doubt = true, cl.End()
		}
	}
	for _, cl := range closings {
		if !cl.Cancel && cl.refuses() && !cl.Sent.Before(doubt) {
			p.refused = p.told.IsZero()
		}
	}
}

func (p *payment) hears(at time.Time) {
	if p.told.IsZero() || at.Before(p.told) {
		p.told = at
	}
}

// payment is what the client of o knows of the payment of its order id.
func (c *file) payment(o *outcome, id string) payment {
	var p payment
	p.fold(c.closings[id])
	for i := range o.requests { // an order that is looked at says it as well
		if r := &o.requests[i]; r.announces() && r.Order.ID == id && r.Order.Status == Paid {
			p.hears(r.End())
		}
	}
	return p
}

// yes is when the client of o first heard the yes to its order id: that it is
// stored, or, where that promises nothing yet, that it is paid. Zero: never.
func (c *file) yes(o *outcome, id string) time.Time {
	if c.onPayment() {
		return c.payment(o, id).told
	}
	return c.announcing(o, id).End()
}

// firstPayment is when the first call to pay was sent, zero if none was.
func (c *file) firstPayment() (first time.Time) {
	for _, cl := range c.Closings {
		if !cl.Cancel && (first.IsZero() || cl.Sent.Before(first)) {
			first = cl.Sent
		}
	}
	return first
}

// paymentAnswer judges what one call to pay was told, beside what any closing is.
func (c *file) paymentAnswer(t *tally, cl Closing) {
	o := c.ordered[cl.OrderID]
	if o == nil || !cl.refuses() {
		return
	}
	if told := c.payment(o, cl.OrderID).told; !told.IsZero() && !cl.Sent.Before(told) {
		t.add("a paid order refused later", "%d %s, %s", cl.Status, cl.Code, cl.OrderID)
	}
	if cl.Code == "buyer_limit" && o.quantity <= c.PerBuyerLimit && c.asksOf[o.buyer] == 1 {
		t.add("buyer_limit for a buyer without paid orders", "%s of %s", cl.OrderID, o.buyer)
	}
}

// refunded says whether a payment may have been told order_closed by an order that
// stays open: where Redis lost data, or was gone, its reference is due to be
// refunded, and stays refused.
func (c *file) refunded(cl Closing, row Row) bool {
	return c.onPayment() && c.broken && !cl.Cancel && row.Status == Pending
}

// payments are what the clients' records say about the stock where it is taken
// on payment.
func (c *file) payments(h *chronicle) {
	for _, o := range c.asks {
		for i := range o.requests { // a hint, and a true one: sold units stay sold
			if r := &o.requests[i]; r.Code == "sold_out" {
				h.add(refused, o.quantity, r.Sent, r.End())
			}
		}
		for _, id := range c.idsOf(o) {
			p := c.payment(o, id)
			paid := !p.told.IsZero() || c.rows[id].Status == Paid
			if paid {
				from := p.asked
				if from.IsZero() {
					from = o.requests[0].Sent // by nobody: that is for others to judge
				}
				h.add(bought, o.quantity, from, p.told)
			}
			calls := 0
			for _, cl := range c.closings[id] {
				if cl.Cancel {
					continue
				}
				calls++
				switch {
				case cl.Code == "sold_out":
					h.add(refused, o.quantity, cl.Sent, cl.End())
				case cl.Code == "order_closed": // its order was closed while it had them
					h.add(tried, o.quantity, cl.Sent, cl.End())
				case cl.unknown() && !paid, calls > 1 && c.broken:
					h.add(tried, o.quantity, cl.Sent, never)
				}
			}
		}
	}
}
