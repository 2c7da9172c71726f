package judge

import "slices"

// answerOperators is what to do where a sale could not be read.
const answerOperators = "find out why the server does not answer an operator, and run again"

// Judge compares what the clients were told with what the server has.
func Judge(e Evidence) Verdict {
	c := NewIndex(e)
	v := Verdict{Total: e.Total, Gaps: slices.Clone(e.Gaps)}
	if e.Unread != "" {
		v.Gaps = append(v.Gaps, Gap{[]string{Undersold, Lost, Unannounced, Drift}, e.Unread, answerOperators})
	} else {
		v.Available, v.Queued, v.Restoring = e.Audit.Available, e.Audit.Queued, e.Audit.Restoring
		c.count(&v)
	}

	if c.moving() {
		c.SoldOut = false
		v.Gaps = append(v.Gaps, Gap{[]string{Undersold, Drift, Unsettled}, "other people keep the sale in motion: " + e.Unsettled, "run again without visitors"})
	}

	// What clients were told is judged even if nothing else could be read.
	if !e.Changing {
		c.oversold(&v)
		c.undersold(&v)
		c.overLimit(&v)
	}
	if e.Unread == "" {
		c.lost(&v)
		c.unannounced(&v)
		if !c.moving() && !e.Changing {
			c.drift(&v)
		}
	}
	c.duplicates(&v)
	c.answers(&v)
	if !e.Changing {
		c.explained(&v)
	}
	if e.Unsettled != "" && !c.moving() {
		v.violation(Unsettled, 1, "The sale did not come to rest: %s; last seen available %d, queued %d, restoring %d, sold %d.",
			e.Unsettled, e.Audit.Available, e.Audit.Queued, e.Audit.Restoring, e.Audit.Sold)
	}
	c.exercised(&v)
	return v
}

// count sums the rows by status.
func (c *Index) count(v *Verdict) {
	units := map[string]int{}
	for _, row := range c.rows {
		units[row.Status] += row.Quantity
		if row.Status != Rejected {
			v.Durable++
		}
	}
	v.VisitorOrders, v.VisitorUnits = c.visitors.orders, c.visitors.units
	v.Pending, v.Paid, v.Cancelled, v.Expired, v.Rejected = units[Pending], units[Paid], units[Cancelled], units[Expired], units[Rejected]
	if c.OnPayment() {
		v.Pending = 0
	}
}

// exercised lists the checks that nothing in this run put to the test.
func (c *Index) exercised(v *Verdict) {
	var soldOut, replay, second, cancelled bool
	for _, o := range c.Outcomes {
		for _, r := range o.Requests {
			// Fresh buyers always end with sold_out. Gates break where many
			// want the last unit, and only the attack does that.
			soldOut = soldOut || r.Attack && r.Code == "sold_out" && !c.OnPayment()
			second = second || r.Kind == Second && r.Code == "buyer_limit"
			// A replay tests something once the order has been announced.
			replay = replay || o.Announced != nil && r.Kind == Replay && !r.Sent.Before(o.Announced.End()) && r.Announces()
		}
	}
	for _, cl := range c.Closings {
		cancelled = cancelled || cl.Cancel && cl.Done()
		if o := c.Ordered[cl.OrderID]; o != nil && o.Requests[0].Attack && !cl.Cancel {
			soldOut = soldOut || cl.Code == "sold_out"
			second = second || cl.Code == "buyer_limit"
		}
	}
	note := func(ok bool, what, why, do string) {
		if !ok {
			v.Unexercised = append(v.Unexercised, Gap{[]string{what}, why, do})
		}
	}
	// A violation of the same kind proves that the check was exercised.
	taking := "order"
	if c.OnPayment() {
		taking = "payment"
	}
	note(soldOut, "sell-out", "no "+taking+" of the attack heard sold_out", "send more orders, or sell fewer units (--rate, --duration, --stock)")
	note(replay || v.WrongAnswers > 0, "replay", "no key of an accepted order was answered again", "repeat more requests (--replays)")
	note(second || v.OverLimit > 0, "second order", "nobody was refused by, or got past, the buyer's limit", "let more buyers order again (--second-orders)")
	note(cancelled, "cancellation", "no order was cancelled", "cancel more orders (--cancels)")
}
