package judge

import (
	"slices"
	"strings"
)

// answerOperators is the advice for a run that could not read the sale.
const answerOperators = "find out why the server does not answer an operator, and run again"

// Judge compares the answers that clients received with the rows and the audit of the
// server. A check that the evidence does not allow becomes a Gap, and a check that no
// event has put to the test is listed in Unexercised.
//
// If Unread is set, Judge checks only Oversold, OverLimit, Duplicates and WrongAnswer by
// the answers alone, and Backwards: it may find violations, but cannot exclude them. If
// Changing is set, it checks only Lost, Unannounced, Duplicates, WrongAnswer, Unsettled and
// the feed. If visitors keep the audit changing, it does not check Undersold, Drift and
// Unsettled. Checks that need a feature of Lacks are listed in Inapplicable and are not made.
func Judge(e Evidence) Verdict {
	c := NewIndex(e)
	v := Verdict{Total: e.Total, Gaps: slices.Clone(e.Gaps), Inapplicable: e.inapplicable()}
	if e.Unread != "" {
		checks := []string{Oversold, Undersold, Lost, Unannounced, Duplicates, OverLimit, Drift, Unsettled}
		if !slices.ContainsFunc(e.Requests, func(r Request) bool { return r.Status > 0 }) {
			checks = append(checks, WrongAnswer)
		}
		v.Gaps = append(v.Gaps, Gap{checks, e.Unread, answerOperators})
	} else {
		v.Available, v.Queued, v.Restoring = e.Audit.Available, e.Audit.Queued, e.Audit.Restoring
		c.count(&v)
	}

	gap, moving := c.moving()
	if moving {
		c.SoldOut = false
		v.Gaps = append(v.Gaps, gap)
	}

	if n := c.unanswered(); n > 0 {
		c.SoldOut = false
		v.Gaps = append(v.Gaps, Gap{[]string{Oversold, Undersold, Unannounced}, Plural(n, "order") + " without an answer and without a row, on which the shop may still be working", "let the clients wait longer (--timeout)"})
	}

	// The answers are judged even if nothing else could be read.
	if !e.Changing {
		c.oversold(&v)
		c.undersold(&v)
		if !c.lacks(Limit) {
			c.overLimit(&v)
		}
	}
	if e.Unread == "" {
		c.lost(&v)
		c.unannounced(&v)
		if !moving && !e.Changing && !c.lacks(Auditing) {
			c.drift(&v)
		}
	}
	if !c.lacks(Keys) {
		c.duplicates(&v)
	}
	c.answers(&v)
	c.feed(&v)
	if !e.Changing {
		c.explained(&v)
	}
	if e.Unsettled != "" && !moving {
		v.violation(Unsettled, 1, "The sale did not come to rest: %s; last seen available %d, queued %d, restoring %d, sold %d.",
			e.Unsettled, e.Audit.Available, e.Audit.Queued, e.Audit.Restoring, e.Audit.Sold)
	}
	c.exercised(&v)
	v.leaveOutInapplicable()
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

// exercised records the checks that no event of the run has put to the test.
func (c *Index) exercised(v *Verdict) {
	var accepted, soldOut, replay, second, cancelled bool
	for _, o := range c.Outcomes {
		accepted = accepted || o.Announced != nil
		for _, r := range o.Requests {
			// Only a sold_out of the attack counts. Fresh buyers end with sold_out in
			// every run, but an oversell needs many buyers who compete for the last
			// unit.
			soldOut = soldOut || r.Attack && r.Code == "sold_out" && !c.OnPayment()
			second = second || r.Kind == Second && r.Code == "buyer_limit"
			// A replay is a test only if it was sent after the announcement.
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
	// note records an event that did not happen, and the promise that only this event puts to the test.
	note := func(ok bool, checks, why, do string) {
		if !ok {
			v.Unexercised = append(v.Unexercised, Gap{strings.Split(checks, ", "), why, do})
		}
	}
	note(accepted, "acceptance, "+Lost, "no order was accepted", "read the answers and the server's log")
	// If a check found a violation, it was exercised.
	taking := "order"
	if c.OnPayment() {
		taking = "payment"
	}
	note(soldOut || v.Oversold > 0, "sell-out, "+Oversold, "no "+taking+" of the attack received sold_out", "send more orders, or sell fewer units (--rate, --duration, --stock)")
	note(replay || v.Duplicates > 0 || v.WrongAnswers > 0 || c.lacks(Keys), "replay, "+Duplicates, "no key of an accepted order was answered again", "repeat more requests (--replays)")
	note(second || v.OverLimit > 0 || c.lacks(Limit), "second order, "+OverLimit, "no second order was refused with buyer_limit", "let more buyers order again (--second-orders)")
	note(cancelled || c.lacks(Cancelling), "cancellation", "no order was cancelled", "cancel more orders (--cancels)")
}

// unanswered counts the orders without an answer and without a row. Without keys, no retry settles them.
func (c *Index) unanswered() (n int) {
	for _, o := range c.Outcomes {
		if c.lacks(Keys) && !o.Known() && len(c.rowsOf[o.Intent]) == 0 && slices.ContainsFunc(o.Requests, func(r Request) bool { return r.Status == 0 && r.Latency >= c.Timeout }) {
			n++
		}
	}
	return n
}
