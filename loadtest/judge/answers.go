package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func (c *Index) answers(v *Verdict) {
	var t tally
	keyOf := map[string]string{} // order id → key
	for _, o := range c.Outcomes {
		unmarked := map[string]int{} // order id → number of 201s without Idempotent-Replayed
		for i := range o.Requests {
			c.answer(&t, o, &o.Requests[i], unmarked)
		}
		for _, id := range o.IDs {
			if other, ok := keyOf[id]; ok {
				t.add("one order for two keys", "%s for %s and %s", id, other, o.Key)
			}
			keyOf[id] = o.Key
		}
	}
	for _, cl := range c.Closings {
		c.closingAnswer(&t, cl)
	}
	if c.Unread == "" {
		c.compareRows(&t, v)
	}
	v.WrongAnswers = t.count
	v.violation(WrongAnswer, t.count, "%s outside of the contract: %s.", Plural(t.count, "answer"), &t)
}

// answer checks one answer to an order or lookup.
func (c *Index) answer(t *tally, o *Outcome, r *Request, unmarked map[string]int) {
	where := fmt.Sprintf("key %s of %s", o.Key, o.Buyer)
	if r.Fault != "" {
		t.add(fmt.Sprintf("%d with %s", r.Status, r.Fault), "%s", where)
	}
	if !allowed(r) {
		t.add(strings.TrimSpace(fmt.Sprintf("%d %s to a valid request", r.Status, r.Code)), "%s", where)
	}
	if r.Order != nil {
		if r.Order.Buyer != o.Buyer || r.Order.SKU != c.SKU || r.Order.Quantity != o.Quantity {
			t.add("an order that was not requested", "%s, %s", r.Order.ID, where)
		}
		if r.Status == 201 && (r.Order.Status == Reserved || r.Order.Status == Rejected) {
			t.add("201 for an order that is "+r.Order.Status, "%s", r.Order.ID)
		}
		if r.Kind != Lookup && !r.Replayed {
			// If two requests were sent at once, either answer may be the replay. But
			// at most one may lack the header.
			if unmarked[r.Order.ID]++; unmarked[r.Order.ID] == 2 {
				t.add("a replay without Idempotent-Replayed", "%s, %s", r.Order.ID, where)
			}
		}
	}
	// This request was sent after the announcement had arrived. Only the rate limiter
	// may refuse it.
	if o.Announced != nil && r.Refuses() && !r.Limited() && !r.Sent.Before(o.Announced.End()) && !c.stale(r, o) {
		t.add("an accepted key refused later", "%d %s, %s", r.Status, r.Code, where)
	}
	// A buyer with two intents may still be charged for an order whose units are not
	// released yet. A buyer with one intent cannot be at the limit.
	if c.intentsOf[o.Buyer] == 1 && r.Code == "buyer_limit" && o.Quantity <= c.UnitsPerBuyer {
		t.add("buyer_limit for a buyer without orders", "%s", where)
	}
}

// StaleFor is the time for which a node may answer sold_out after units were released,
// even to a buyer who has just got a unit from another node. It does not apply if the
// sale takes units on payment.
const StaleFor = 100 * time.Millisecond

func (c *Index) stale(r *Request, o *Outcome) bool {
	return r.Code == "sold_out" && !c.OnPayment() && !c.Changing && r.Sent.Before(o.Announced.End().Add(StaleFor))
}

// allowed reports whether the contract allows this answer to a valid order for an open
// sale, or to a lookup.
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

// closingAnswer checks the answer to one cancellation or payment.
func (c *Index) closingAnswer(t *tally, cl Closing) {
	want, codes := Paid, []string{"order_closed", "in_progress"}
	if cl.Cancel {
		want, codes = Cancelled, []string{"order_closed", "in_progress", "already_paid"}
		c.cancelAnswer(t, cl)
	} else if c.OnPayment() || c.Changing { // a payment that takes units may be refused for lack of them
		codes = append(codes, "sold_out", "buyer_limit")
		if c.Changing { // another reference may have paid the order
			codes = append(codes, "already_paid")
		}
		c.paymentAnswer(t, cl)
	}
	if cl.Fault != "" {
		t.add(fmt.Sprintf("%d to %s with %s", cl.Status, cl.Verb(), cl.Fault), "%s", cl.OrderID)
	}
	row, stored := c.rows[cl.OrderID] // the check Lost reports orders without a row
	switch {
	// No answer, a limited call and an outage prove nothing about the order.
	case cl.Status == 0 || cl.Status == 429 || cl.Status == 503:
	case cl.Done():
		if cl.Order != nil && (cl.Order.ID != cl.OrderID || cl.Order.Status != want) {
			t.add("200 to "+cl.Verb()+" without effect", "%s is %s", cl.Order.ID, cl.Order.Status)
		}
		if stored && row.Status != want && !(c.OnPayment() && !cl.Cancel) { // the check Lost reports unpaid rows of confirmed payments
			t.add(cl.Verb()+" confirmed and not kept", "%s is %s", cl.OrderID, row.Status)
		} else if stored && row.PaymentRef != "" && !cl.Cancel && cl.Ref != row.PaymentRef {
			t.add("pay confirmed and not kept", "%s is paid by %s and not by %s", cl.OrderID, row.PaymentRef, cl.Ref)
		}
	case cl.Status != 409 || !slices.Contains(codes, cl.Code):
		t.add(strings.TrimSpace(fmt.Sprintf("%d %s to %s", cl.Status, cl.Code, cl.Verb())), "%s", cl.OrderID)
	case c.Changing && !cl.Cancel: // the check Unannounced reports paid rows of refused payments
	case cl.Code == "order_closed" && stored && (row.Status == Pending || row.Status == Paid) && !c.paidLate(cl, row) && !c.refunded(cl, row):
		t.add("order_closed for an open or paid order", "%s is %s", cl.OrderID, row.Status)
	case cl.Code == "already_paid" && stored && row.Status != Paid:
		t.add("already_paid for an unpaid order", "%s is %s", cl.OrderID, row.Status)
	}
}

// paidLate reports whether an order may be paid although a cancellation was refused
// with order_closed. The order had then expired, and a late payment reopened it. A
// payment that was refused with order_closed is refunded and never reopens the order.
func (c *Index) paidLate(cl Closing, row Row) bool {
	o := c.byIntent[Intent{row.Buyer, row.Key}]
	if !cl.Cancel || row.Status != Paid || o == nil {
		return false
	}
	announced := c.announcing(o, cl.OrderID)
	return announced != nil && !announced.Order.ExpiresAt.IsZero() && !row.PaidAt.Before(announced.Order.ExpiresAt)
}

// cancelAnswer checks the answer to a cancellation against an earlier confirmation.
func (c *Index) cancelAnswer(t *tally, cl Closing) {
	before := func(done Closing) bool { return done.Cancel && done.Done() && !cl.Sent.Before(done.End()) }
	if cl.denies() && slices.ContainsFunc(c.closings[cl.OrderID], before) {
		t.add("a cancelled order refused later", "%d %s, %s", cl.Status, cl.Code, cl.OrderID)
	}
}

// paymentAnswer checks the refusal of a payment.
func (c *Index) paymentAnswer(t *tally, cl Closing) {
	o := c.Ordered[cl.OrderID]
	if o == nil || !cl.denies() {
		return
	}
	confirmed, ref := c.payment(o, cl.OrderID).ConfirmedAt, c.rows[cl.OrderID].PaymentRef
	if !confirmed.IsZero() && !cl.Sent.Before(confirmed) && (ref == "" || ref == cl.Ref) {
		t.add("a paid order refused later", "%d %s, %s", cl.Status, cl.Code, cl.OrderID)
	}
	if cl.Code == "buyer_limit" && o.Quantity <= c.UnitsPerBuyer && c.intentsOf[o.Buyer] == 1 {
		t.add("buyer_limit for a buyer without paid orders", "%s of %s", cl.OrderID, o.Buyer)
	}
}

// refunded reports whether a payment may be refused with order_closed while its order
// stays open. This happens after Redis lost data or was unreachable. That payment
// reference is then due for a refund and stays refused.
func (c *Index) refunded(cl Closing, row Row) bool {
	return c.OnPayment() && c.broken && !cl.Cancel && row.Status == Pending
}

// compareRows compares the rows with the calls that led to them, and the audit with the
// rows.
func (c *Index) compareRows(t *tally, v *Verdict) {
	c.open(func(o *Outcome, id string) {
		if row := c.rows[id]; row.Status == Cancelled || row.Status == Expired {
			t.add("an order that no client closed", "%s of %s is %s", id, o.Buyer, row.Status)
		}
	})
	for _, row := range c.Rows {
		if !slices.Contains([]string{Pending, Paid, Cancelled, Expired, Rejected}, row.Status) {
			t.add("a row with an unknown status", "%s is %q", row.ID, row.Status)
		}
		if row.Status == Paid && !c.lacks(Paying) && !c.isVisitors(row) && !slices.ContainsFunc(c.closings[row.ID], func(cl Closing) bool { return !cl.Cancel }) {
			t.add("an order that no client paid", "%s of %s", row.ID, row.Buyer)
		}
	}
	a := c.Audit
	if c.Unsettled != "" || c.Changing {
		return // rows and audit may be from different moments
	}
	if a.Total != c.Total || a.Sold != v.Pending+v.Paid || a.Pending != v.Pending || a.Paid != v.Paid {
		t.add("an audit that differs from the rows", "audit: total %d, sold %d, pending %d, paid %d; rows: pending %d, paid %d of %d",
			a.Total, a.Sold, a.Pending, a.Paid, v.Pending, v.Paid, c.Total)
	}
	if a.Balanced != (a.Drift == 0 && a.Oversold == 0) {
		t.add("an audit that contradicts itself", "balanced %v with drift %d and oversold %d", a.Balanced, a.Drift, a.Oversold)
	}
}

// tally counts wrong answers by kind and keeps one example of each kind.
type tally struct {
	count int
	kinds []wrongKind
}

type wrongKind struct {
	name    string
	count   int
	example string
}

func (t *tally) add(kind, format string, args ...any) {
	i := slices.IndexFunc(t.kinds, func(f wrongKind) bool { return f.name == kind })
	if i < 0 {
		i = len(t.kinds)
		t.kinds = append(t.kinds, wrongKind{name: kind, example: Sprintf(format, args...)})
	}
	t.count++
	t.kinds[i].count++
}

func (t *tally) String() string {
	var parts []string
	for _, f := range t.kinds {
		parts = append(parts, Sprintf("%d × %s (%s)", f.count, f.name, f.example))
	}
	return strings.Join(parts, "; ")
}
