package judge

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// This check reads the clients' records as a history of one counter: the units
// on sale. It asks whether some order of the operations explains all answers,
// where each operation takes effect at one instant between its call and its
// return (linearizability; Herlihy and Wing, 1990). Porcupine searches for it.
//
// The other checks compare sums at the end. This one also finds faults after
// which the sums are right again: a buyer who was refused while units were
// free, or a unit that was promised twice for a moment.

// stockKind is what a client did to the stock, or saw of it.
type stockKind int

const (
	bought   stockKind = iota // units were promised
	refused                   // sold_out: fewer units were left
	closed                    // units are coming back, and arrive at some later time
	tried                     // not sold in the end, but it may have had units for a while
	restored                  // at rest: units are on sale, and none is coming back
)

type stockOp struct {
	kind  stockKind
	units int
}

func (o stockOp) String() string {
	return fmt.Sprintf([]string{"buy %d", "sold out for %d", "give back %d", "try for %d", "%d on sale, at rest"}[o.kind], o.units)
}

// stockState is the state of the specification. Units that come back stay in
// returning until somebody buys them: clients cannot know when the gate got
// them.
type stockState struct{ available, returning int }

// stockModel is the sequential specification of a sale with total units.
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

// after lists the states that op may lead to. There is none if op is impossible.
func (s stockState) after(op stockOp) []any {
	n := op.units
	// Units that are on sale go first. Units that are coming back can always
	// come later, and then explain a refusal just as well.
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

// searchTimeout bounds the search where the evidence does not. The search takes
// milliseconds as a rule. After many lost answers there are too many orders to
// try.
const searchTimeout = 2 * time.Second

// explained judges the history.
func (c *Index) explained(v *Verdict) {
	if c.Unread != "" {
		v.Gaps = append(v.Gaps, Gap{[]string{History}, c.Unread, answerOperators})
		return
	}
	ops := c.operations()
	v.Operations = len(ops)
	switch porcupine.CheckOperationsTimeout(stockModel(c.Total), ops, cmp.Or(c.Search, searchTimeout)) {
	case porcupine.Illegal:
		v.NotLinearizable = 1
		v.violation(History, 1, "No order of the %s explains their answers: somebody was refused what was free, or got what was not.",
			Plural(len(ops), "operation"))
	case porcupine.Unknown:
		v.Undecided = true
	}
}

// WriteHistory writes an HTML page with the clients' operations over time, and
// with the longest part of the history that can be explained.
func WriteHistory(w io.Writer, e Evidence) error {
	model := stockModel(e.Total)
	_, info := porcupine.CheckOperationsVerbose(model, NewIndex(e).operations(), searchTimeout)
	if err := porcupine.Visualize(model, info, w); err != nil {
		return fmt.Errorf("loadtest: write the history: %w", err)
	}
	return nil
}

// operations are what the records say about the stock, in order of their calls.
func (c *Index) operations() []porcupine.Operation {
	h := chronicle{}
	if c.OnPayment() {
		c.payments(&h)
	} else {
		c.orders(&h)
	}
	// Nobody knows when visitors had their units. So a refusal is right if they may
	// have had them then, and what they have in the end counts as left over.
	for i := range h {
		if h[i].kind == refused {
			h[i].units += c.visitors.wanted
		}
	}
	if c.Unsettled == "" {
		h.add(restored, c.Audit.Available+c.visitors.units, c.heard.Add(1), never) // after everything else
	}
	return h.operations()
}

// orders adds what the records say where orders take the units.
func (c *Index) orders(h *chronicle) {
	for _, o := range c.Outcomes {
		call := o.Requests[0].Sent // any attempt may have been the one that counted, also one without an answer
		for i := 1; i < len(o.Requests); i++ {
			switch r := &o.Requests[i]; {
			case c.broken:
				h.add(tried, o.Quantity, r.Sent, never)
			case r.Replayed: // the gate may let it in, until the database finds the first order
				h.add(tried, o.Quantity, r.Sent, r.End())
			}
		}
		for _, id := range o.IDs {
			r := c.announcing(o, id)
			h.add(bought, o.Quantity, call, r.End())
			c.ending(h, o, id, r)
			call = r.End()
		}
		for i := range o.Requests {
			if r := &o.Requests[i]; r.Code == "sold_out" {
				h.add(refused, o.Quantity, r.Sent, r.End())
			}
		}
		if len(o.IDs) > 0 {
			continue
		}
		rows := c.rowsOf[o.Intent]
		for _, row := range rows { // the order is stored, and its client was not told
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
		if o.Doubted && len(rows) == 0 {
			h.add(tried, o.Quantity, call, never)
		}
	}
}

// ending adds what became of an order that r announced.
func (c *Index) ending(h *chronicle, o *Outcome, id string, r *Request) {
	row := c.rows[id]
	for _, cl := range c.closings[id] {
		switch {
		case cl.Cancel && cl.Done():
			h.add(closed, o.Quantity, cl.Sent, cl.End())
			return
		case cl.Cancel && cl.Unknown() && row.Status == Cancelled:
			h.add(closed, o.Quantity, cl.Sent, never)
			return
		case !cl.Cancel && row.Status == Paid && cl.Sent.After(r.Order.ExpiresAt):
			// The order expired and was paid late: its units came back and were taken again.
			h.add(closed, o.Quantity, r.End(), never)
			h.add(bought, o.Quantity, r.End(), never)
			return
		}
	}
	if row.Status == Expired || row.Status == Cancelled {
		h.add(closed, o.Quantity, r.End(), never)
	}
}

// payments adds what the records say where payments take the units.
func (c *Index) payments(h *chronicle) {
	for _, o := range c.Outcomes {
		for i := range o.Requests { // sold units stay sold, so a sold_out must be true
			if r := &o.Requests[i]; r.Code == "sold_out" {
				h.add(refused, o.Quantity, r.Sent, r.End())
			}
		}
		for _, id := range c.idsOf(o) {
			c.paying(h, o, id)
		}
	}
}

// paying adds the calls to pay one order.
func (c *Index) paying(h *chronicle, o *Outcome, id string) {
	p := c.payment(o, id)
	paid := !p.Told.IsZero() || c.rows[id].Status == Paid
	if paid {
		from := p.asked
		if from.IsZero() {
			from = o.Requests[0].Sent // paid by nobody: another check finds that
		}
		h.add(bought, o.Quantity, from, p.Told)
	}
	calls := 0
	for _, cl := range c.closings[id] {
		if cl.Cancel {
			continue
		}
		calls++
		switch {
		case cl.Code == "sold_out":
			h.add(refused, o.Quantity, cl.Sent, cl.End())
		case cl.Code == "order_closed": // it may have had units until its order was closed
			h.add(tried, o.Quantity, cl.Sent, cl.End())
		case cl.Unknown() && !paid, calls > 1 && c.broken:
			h.add(tried, o.Quantity, cl.Sent, never)
		}
	}
}

// never is the end of an operation whose end is not known: it took effect at
// some time after its call.
var never time.Time

// chronicle is what happened to the stock, as its clients saw it.
type chronicle []timed

type timed struct {
	stockOp
	call, end time.Time
}

func (h *chronicle) add(kind stockKind, units int, call, end time.Time) {
	*h = append(*h, timed{stockOp{kind, units}, call, end})
}

// operations makes the history one for porcupine: in nanoseconds since its
// start, and with as many clients as were busy at once, for the picture.
func (h chronicle) operations() []porcupine.Operation {
	if len(h) == 0 {
		return nil
	}
	slices.SortStableFunc(h, func(a, b timed) int { return a.call.Compare(b.call) })
	start := h[0].call
	ops := make([]porcupine.Operation, len(h))
	var free []int64 // per client: when it is next without an operation
	for i, t := range h {
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
