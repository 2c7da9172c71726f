package loadtest

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// The clients' records as a history of one counter, the units on sale, and the
// question whether some order of its operations explains all answers, each
// operation taking effect at one instant between its call and its return
// (linearizability; Herlihy and Wing, 1990). Porcupine searches for the order.
//
// The other checks compare sums at the end. This one also finds what adds up
// afterwards: a buyer refused while units were free, a unit promised twice for
// a moment.

// What a client did to the stock, or saw of it.
type stockKind int

const (
	bought   stockKind = iota // units were promised
	refused                   // sold_out: fewer than units were left
	closed                    // units are on their way back, and may arrive at any later time
	tried                     // no yes came of it; it may have had units for a while all the same
	restored                  // at rest: units are on sale, and none is on its way
)

type stockOp struct {
	kind  stockKind
	units int
}

func (o stockOp) String() string {
	return fmt.Sprintf([]string{"buy %d", "sold out for %d", "give back %d", "try for %d", "%d on sale, at rest"}[o.kind], o.units)
}

// stockState is the specification's state. Units that come back wait in
// returning until somebody is seen to have had them: the clients cannot know
// when the gate got them.
type stockState struct{ available, returning int }

// stockModel is the sequential specification of a sale of total units.
func stockModel(total int) porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init:              func() []any { return []any{stockState{available: total}} },
		Step:              func(state, input, _ any) []any { return state.(stockState).after(input.(stockOp)) },
		DescribeOperation: func(input, _ any) string { return input.(stockOp).String() },
		DescribeState: func(state any) string {
			s := state.(stockState)
			return fmt.Sprintf("%d on sale, %d coming back", s.available, s.returning)
		},
	}).ToModel()
}

// after lists the states that op may leave behind; none where it is impossible.
func (s stockState) after(op stockOp) []any {
	n := op.units
	// What was never sold goes first: what is coming back explains a refusal
	// just as well when it comes later.
	fresh := min(n, s.available)
	switch op.kind {
	case bought:
		if s.available+s.returning >= n {
			return []any{stockState{s.available - fresh, s.returning - (n - fresh)}}
		}
	case refused:
		if s.available < n {
			return []any{s}
		}
	case closed:
		return []any{stockState{s.available, s.returning + n}}
	case tried:
		if s.available+s.returning >= n && fresh > 0 {
			return []any{s, stockState{s.available - fresh, s.returning + fresh}}
		}
		return []any{s}
	case restored:
		if s.available+s.returning == n {
			return []any{stockState{available: n}}
		}
	}
	return nil
}

// historyPatience bounds the search for an order, where nothing else is asked for. As a rule it takes
// milliseconds; where many answers were lost, the orders to be tried are too many.
const historyPatience = 2 * time.Second

// explained judges the clients' records.
func (c *file) explained(v *Verdict) {
	if c.Unread != "" {
		v.Gaps = append(v.Gaps, Gap{[]string{History}, c.Unread})
		return
	}
	ops := c.operations()
	v.Operations = len(ops)
	switch porcupine.CheckOperationsTimeout(stockModel(c.Total), ops, cmp.Or(c.Search, historyPatience)) {
	case porcupine.Illegal:
		v.Inexplicable = 1
		v.violation(History, 1, "No order of the %s explains their answers: somebody was refused what was free, or got what was not.",
			plural(len(ops), "operation"))
	case porcupine.Unknown:
		v.Undecided = true
	}
}

// WriteHistory writes a page with the clients' operations over time and the
// longest part of them that can be explained.
func (rep *Report) WriteHistory(w io.Writer) error {
	model := stockModel(rep.Total)
	_, info := porcupine.CheckOperationsVerbose(model, newCase(rep.evidence).operations(), historyPatience)
	if err := porcupine.Visualize(model, info, w); err != nil {
		return fmt.Errorf("loadtest: write the history: %w", err)
	}
	return nil
}

// operations are what the records say about the stock, in order of their
// calls.
func (c *file) operations() []porcupine.Operation {
	h := chronicle{}
	if c.onPayment() {
		c.payments(&h)
	} else {
		c.orders(&h)
	}
	if c.Unsettled == "" {
		h.add(restored, c.Audit.Available, c.lastHeard().Add(1), never) // after all that was heard of
	}
	return h.operations()
}

// orders are what the records say about the stock where orders take it.
func (c *file) orders(h *chronicle) {
	for _, o := range c.asks {
		call := o.requests[0].Sent // an attempt without an answer may have been the one that counted
		for i := 1; i < len(o.requests) && c.broken; i++ {
			h.add(tried, o.quantity, o.requests[i].Sent, never)
		}
		for _, id := range o.ids {
			r := c.announcing(o, id)
			h.add(bought, o.quantity, call, r.End())
			c.ending(h, o, id, r)
			call = r.End()
		}
		for i := range o.requests {
			if r := &o.requests[i]; r.Code == "sold_out" {
				h.add(refused, o.quantity, r.Sent, r.End())
			}
		}
		if len(o.ids) > 0 {
			continue
		}
		rows := c.rowsOf[o.ask]
		for _, row := range rows { // stored, and nobody heard of it
			switch row.Status {
			case Rejected:
				h.add(tried, row.Quantity, call, never)
			case Cancelled, Expired:
				h.add(closed, row.Quantity, call, never)
				fallthrough
			default:
				h.add(bought, row.Quantity, call, never)
			}
		}
		if o.doubted && len(rows) == 0 {
			h.add(tried, o.quantity, call, never)
		}
	}
}

// ending adds what became of an order that was announced by r.
func (c *file) ending(h *chronicle, o *outcome, id string, r *Request) {
	row := c.rows[id]
	for _, cl := range c.closings[id] {
		switch {
		case cl.Cancel && cl.done():
			h.add(closed, o.quantity, cl.Sent, cl.End())
			return
		case cl.Cancel && cl.unknown() && row.Status == Cancelled:
			h.add(closed, o.quantity, cl.Sent, never)
			return
		case !cl.Cancel && row.Status == Paid && cl.Sent.After(r.Order.ExpiresAt):
			// Expired, and then paid for late: the units came back and were taken again.
			h.add(closed, o.quantity, r.End(), never)
			h.add(bought, o.quantity, r.End(), never)
			return
		}
	}
	if row.Status == Expired || row.Status == Cancelled {
		h.add(closed, o.quantity, r.End(), never)
	}
}

// announcing is the request whose answer first announced an order.
func (c *file) announcing(o *outcome, id string) *Request {
	var first *Request
	for i := range o.requests {
		if r := &o.requests[i]; r.announces() && r.Order.ID == id && (first == nil || r.End().Before(first.End())) {
			first = r
		}
	}
	return first
}

// lastHeard is when the last answer came in.
func (c *file) lastHeard() (last time.Time) {
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

// never is the end of an operation of which no end is known: it may have taken
// effect at any time after its call.
var never time.Time

// A chronicle is what happened to the stock as its clients saw it.
type chronicle struct {
	list []timed
}

type timed struct {
	stockOp
	call, end time.Time
}

func (h *chronicle) add(kind stockKind, units int, call, end time.Time) {
	h.list = append(h.list, timed{stockOp{kind, units}, call, end})
}

// operations hands the history to porcupine: in nanoseconds since its start,
// and with as many clients as were busy at once, for the picture.
func (h *chronicle) operations() []porcupine.Operation {
	if len(h.list) == 0 {
		return nil
	}
	slices.SortStableFunc(h.list, func(a, b timed) int { return a.call.Compare(b.call) })
	start := h.list[0].call
	ops := make([]porcupine.Operation, len(h.list))
	var free []int64 // per client: when it is next without an operation
	for i, t := range h.list {
		call, end := t.call.Sub(start).Nanoseconds(), int64(math.MaxInt64)
		if !t.end.IsZero() {
			end = max(t.end.Sub(start).Nanoseconds(), call)
		}
		client := slices.IndexFunc(free, func(at int64) bool { return at < call })
		if client < 0 {
			client, free = len(free), append(free, 0)
		}
		free[client] = end
		ops[i] = porcupine.Operation{ClientId: client, Input: t.stockOp, Call: call, Return: end}
	}
	return ops
}
