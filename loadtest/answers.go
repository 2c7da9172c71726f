package loadtest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// answers collects what no server that keeps the contract would have said:
// answers of the wrong form, answers that contradict each other, and answers
// that the rows do not bear out.
func (c *file) answers(v *Verdict) {
	var t tally
	keyOf := map[string]string{} // order id → key
	for _, o := range c.asks {
		c.ordering(&t, o)
		for _, id := range o.ids {
			if other, ok := keyOf[id]; ok {
				t.add("one order for two keys", "%s for %s and %s", id, other, o.key)
			}
			keyOf[id] = o.key
		}
	}
	for _, cl := range c.Closings {
		c.closingAnswer(&t, cl)
	}
	if c.Unread == "" {
		c.borneOut(&t, v)
	}
	if v.WrongAnswers = t.count; t.count > 0 {
		v.violation(WrongAnswer, t.count, "%s outside of the contract: %s.", plural(t.count, "answer"), &t)
	}
}

// ordering judges the answers to one ask.
func (c *file) ordering(t *tally, o *outcome) {
	plain := map[string]int{} // per id: answers that did not call themselves a replay
	for i := range o.requests {
		r := &o.requests[i]
		where := fmt.Sprintf("key %s of %s", o.key, o.buyer)
		if r.Fault != "" {
			t.add(fmt.Sprintf("%d with %s", r.Status, r.Fault), "%s", where)
		}
		if !allowed(r) {
			t.add(strings.TrimSpace(fmt.Sprintf("%d %s to a sound request", r.Status, r.Code)), "%s", where)
		}
		if r.Order != nil {
			if r.Order.Buyer != o.buyer || r.Order.SKU != c.SKU || r.Order.Quantity != o.quantity {
				t.add("another order than was asked for", "%s, %s", r.Order.ID, where)
			}
			if r.Status == 201 && (r.Order.Status == Reserved || r.Order.Status == Rejected) {
				t.add("201 for an order that is "+r.Order.Status, "%s", r.Order.ID)
			}
			if r.Kind != Lookup && !r.Replayed {
				// Which of two answers is the replay, the client cannot tell
				// when both were under way; that both cannot be first, it can.
				if plain[r.Order.ID]++; plain[r.Order.ID] == 2 {
					t.add("a replay without Idempotent-Replayed", "%s, %s", r.Order.ID, where)
				}
			}
		}
		// Sent after the yes had arrived, it cannot have been served before.
		// The limiter may refuse anything.
		if o.announced != nil && r.refuses() && !r.limited() && !r.Sent.Before(o.announced.End()) && !c.stale(r, o) {
			t.add("an accepted key refused later", "%d %s, %s", r.Status, r.Code, where)
		}
		// Whoever ordered before may still be charged for units on their way
		// back; whoever never did cannot be at any limit.
		if c.asksOf[o.buyer] == 1 && r.Code == "buyer_limit" && o.quantity <= c.PerBuyerLimit {
			t.add("buyer_limit for a buyer without orders", "%s", where)
		}
	}
}

// staleFor is how long after units have come back another node may still
// answer sold_out, by the contract: also to somebody who has just got one.
// Where no order takes any, there is nothing of the kind.
const staleFor = 100 * time.Millisecond

func (c *file) stale(r *Request, o *outcome) bool {
	return r.Code == "sold_out" && !c.onPayment() && r.Sent.Before(o.announced.End().Add(staleFor))
}

// allowed says whether the contract has such an answer to a sound order for a
// sale that is open, or to a look at its Location.
func allowed(r *Request) bool {
	switch r.Status {
	case 0, 429, 503:
		return true
	case 200, 404:
		return r.Kind == Lookup
	case 201, 202:
		return r.Kind != Lookup
	case 409:
		return r.Kind != Lookup && (r.Code == "sold_out" || r.Code == "buyer_limit")
	}
	return false
}

// closingAnswer judges the answer to one cancellation or payment.
func (c *file) closingAnswer(t *tally, cl Closing) {
	want, codes := Paid, []string{"order_closed", "in_progress"}
	if cl.Cancel {
		want, codes = Cancelled, []string{"order_closed", "in_progress", "already_paid"}
	} else if c.onPayment() {
		codes = append(codes, "sold_out", "buyer_limit")
		c.paymentAnswer(t, cl)
	}
	if cl.Fault != "" {
		t.add(fmt.Sprintf("%d to %s with %s", cl.Status, cl.verb(), cl.Fault), "%s", cl.OrderID)
	}
	row, stored := c.rows[cl.OrderID] // without a row the order is lost already
	switch {
	// No answer, the limiter's and an outage say nothing about the order.
	case cl.Status == 0 || cl.Status == 429 || cl.Status == 503:
	case cl.done():
		if cl.Order != nil && (cl.Order.ID != cl.OrderID || cl.Order.Status != want) {
			t.add("200 to "+cl.verb()+" without effect", "%s is %s", cl.Order.ID, cl.Order.Status)
		}
		if stored && row.Status != want && !(c.onPayment() && !cl.Cancel) { // lost, that is
			t.add(cl.verb()+" confirmed and not kept", "%s is %s", cl.OrderID, row.Status)
		}
	case cl.Status != 409 || !slices.Contains(codes, cl.Code):
		t.add(strings.TrimSpace(fmt.Sprintf("%d %s to %s", cl.Status, cl.Code, cl.verb())), "%s", cl.OrderID)
	case cl.Code == "order_closed" && stored && (row.Status == Pending || row.Status == Paid) && !c.paidLate(cl, row) && !c.refunded(cl, row):
		t.add("order_closed for an order that is not", "%s is %s", cl.OrderID, row.Status)
	case cl.Code == "already_paid" && stored && row.Status != Paid:
		t.add("already_paid for an order that is not", "%s is %s", cl.OrderID, row.Status)
	}
}

// paidLate says whether an order may be paid although a cancellation was told
// that it is closed: it expired, as announced, and was paid late afterwards. A
// payment that was told so is refunded and stays so.
func (c *file) paidLate(cl Closing, row Row) bool {
	o := c.byAsk[ask{row.Buyer, row.Key}]
	if !cl.Cancel || row.Status != Paid || o == nil {
		return false
	}
	announced := c.announcement(o, cl.OrderID)
	return announced != nil && !announced.ExpiresAt.IsZero() && !row.PaidAt.Before(announced.ExpiresAt)
}

// borneOut compares the rows with what they follow from, and the audit with
// the rows.
func (c *file) borneOut(t *tally, v *Verdict) {
	c.open(func(o *outcome, id string) {
		if row := c.rows[id]; row.Status == Cancelled || row.Status == Expired {
			t.add("an order closed by nobody", "%s of %s is %s", id, o.buyer, row.Status)
		}
	})
	for _, row := range c.Rows {
		if row.Status == Paid && !slices.ContainsFunc(c.closings[row.ID], func(cl Closing) bool { return !cl.Cancel }) {
			t.add("an order paid by nobody", "%s of %s", row.ID, row.Buyer)
		}
	}
	a := c.Audit
	if c.Unsettled != "" {
		return // rows and audit need not speak of the same moment
	}
	if a.Total != c.Total || a.Sold != v.Pending+v.Paid || a.Pending != v.Pending || a.Paid != v.Paid {
		t.add("an audit that differs from the rows", "audit: total %d, sold %d, pending %d, paid %d; rows: pending %d, paid %d of %d",
			a.Total, a.Sold, a.Pending, a.Paid, v.Pending, v.Paid, c.Total)
	}
	if a.Balanced != (a.Drift == 0 && a.Oversold == 0) {
		t.add("an audit that contradicts itself", "balanced %v with drift %d and oversold %d", a.Balanced, a.Drift, a.Oversold)
	}
}

// tally counts findings by their nature and keeps one example of each.
type tally struct {
	count   int
	natures []string
	counts  map[string]int
	example map[string]string
}

func (t *tally) add(nature, format string, args ...any) {
	if t.counts == nil {
		t.counts, t.example = map[string]int{}, map[string]string{}
	}
	if t.counts[nature] == 0 {
		t.natures = append(t.natures, nature)
		t.example[nature] = fmt.Sprintf(format, args...)
	}
	t.count++
	t.counts[nature]++
}

func (t *tally) String() string {
	var parts []string
	for _, n := range t.natures {
		parts = append(parts, fmt.Sprintf("%d × %s (%s)", t.counts[n], n, t.example[n]))
	}
	return strings.Join(parts, "; ")
}
