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

// The check History treats the calls of all clients as operations on one counter, the
// units on sale. It asks whether the history is linearizable (Herlihy and Wing, 1990):
// is there an order of the operations that explains all answers, if each takes effect
// at one instant between call and return? Porcupine searches for that order.
//
// The other checks compare sums at the end of the run. This check also finds faults
// that leave the sums right, such as a refusal while units were free, or a unit that
// was promised to two buyers for a moment.

// stockKind is the effect of an operation on the stock.
type stockKind int

const (
	bought  stockKind = iota // the client was promised units
	refused                  // the client received sold_out: fewer units were on sale
	closed                   // the order closed, and its units are released at some later time
	tried                    // the order was not sold, but it may have held units for a while
	atRest                   // the sale is at rest: these units are on sale, and none is being released
)

type stockOp struct {
	kind  stockKind
	units int
}

func (o stockOp) String() string {
	return fmt.Sprintf([]string{"buy %d", "sold out for %d", "close %d", "try for %d", "%d on sale, at rest"}[o.kind], o.units)
}

// stockState is a state of the counter. Clients cannot see when units are released, so
// returning holds the units of closed orders until an order takes them.
type stockState struct{ available, releasing int }

// stockModel is the sequential specification of a sale with total units.
func stockModel(total int) porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init:              func() []any { return []any{stockState{available: total}} },
		Step:              func(state, input, _ any) []any { return state.(stockState).after(input.(stockOp)) },
		DescribeOperation: func(input, _ any) string { return input.(stockOp).String() },
		DescribeState: func(state any) string {
			s := state.(stockState)
			return fmt.Sprintf("%d on sale, %d coming back", s.available, s.releasing)
		},
	}).ToModel()
}

// after returns the states that op may lead to. The result is empty if op is impossible
// in s.
func (s stockState) after(op stockOp) []any {
	n := op.units
	// Take units on sale first. Returning units can be released at any later time, so
	// keeping them never makes a later refusal harder to explain.
	fresh := min(n, s.available)
	switch op.kind {
	case bought:
		if s.available+s.releasing >= n {
			return []any{stockState{s.available - fresh, s.releasing - (n - fresh)}}
		}
	case refused:
		if s.available < n {
			return []any{s}
		}
	case closed:
		return []any{stockState{s.available, s.releasing + n}}
	case tried:
		if s.available+s.releasing >= n && fresh > 0 {
			return []any{s, stockState{s.available - fresh, s.releasing + fresh}}
		}
		return []any{s}
	case atRest:
		if s.available+s.releasing == n {
			return []any{stockState{available: n}}
		}
	}
	return nil
}

// searchTimeout is the default of Evidence.Search. A search usually takes milliseconds,
// but the number of possible orders grows quickly with each lost answer.
const searchTimeout = 2 * time.Second

// explained runs the check History.
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
		v.violation(History, 1, "No order of the %s explains their answers: a buyer was refused units that were free, or got units that were not.",
			Plural(len(ops), "operation"))
	case porcupine.Unknown:
		v.Undecided = true
	}
}

// WriteHistory writes an HTML page that shows the operations of all clients over time,
// and the longest part of the history that can be explained. Its search takes at most 2
// s.
func WriteHistory(w io.Writer, e Evidence) error {
	model := stockModel(e.Total)
	_, info := porcupine.CheckOperationsVerbose(model, NewIndex(e).operations(), searchTimeout)
	if err := porcupine.Visualize(model, info, w); err != nil {
		return fmt.Errorf("judge: write the history: %w", err)
	}
	return nil
}

// operations returns the operations on the stock, ordered by their calls.
func (c *Index) operations() []porcupine.Operation {
	h := stockHistory{}
	if c.OnPayment() {
		c.payments(&h)
	} else {
		c.orders(&h)
	}
	// The times at which visitors held units are unknown. A refusal is therefore right
	// if they may have held the units, and the units that they hold at the end count as
	// on sale.
	for i := range h {
		if h[i].kind == refused {
			h[i].units += c.visitors.wanted
		}
	}
	if c.Unsettled == "" {
		h.add(atRest, c.Audit.Available+c.visitors.units, c.heard.Add(1), never) // after all other operations
	}
	return h.operations()
}

// orders adds the operations of a sale that takes units on order.
func (c *Index) orders(h *stockHistory) {
	for _, o := range c.Outcomes {
		call := o.Requests[0].Sent // each request may have taken effect, even without an answer
		for i := 1; i < len(o.Requests); i++ {
			switch r := &o.Requests[i]; {
			case c.broken:
				h.add(tried, o.Quantity, r.Sent, never)
			case r.Replayed: // the gate may take units for the replay until the database finds the first order
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
		for _, row := range rows { // the order is stored, but its client received no announcement
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
		if o.Inconclusive && len(rows) == 0 {
			h.add(tried, o.Quantity, call, never)
		}
	}
}

// ending adds the operations that follow the announcement r of an order.
func (c *Index) ending(h *stockHistory, o *Outcome, id string, r *Request) {
	row := c.rows[id]
	for _, cl := range c.closings[id] {
		switch {
		case cl.Cancel && cl.Done():
			h.add(closed, o.Quantity, cl.Sent, cl.End())
			return
		case cl.Cancel && cl.Inconclusive() && row.Status == Cancelled:
			h.add(closed, o.Quantity, cl.Sent, never)
			return
		case !cl.Cancel && row.Status == Paid && !r.Order.ExpiresAt.IsZero() && cl.Sent.After(r.Order.ExpiresAt):
			// The order expired and was paid late. Its units were released and taken
			// again.
			h.add(closed, o.Quantity, r.End(), never)
			h.add(bought, o.Quantity, r.End(), never)
			return
		}
	}
	if row.Status == Expired || row.Status == Cancelled {
		h.add(closed, o.Quantity, r.End(), never)
	}
}

// payments adds the operations of a sale that takes units on payment.
func (c *Index) payments(h *stockHistory) {
	for _, o := range c.Outcomes {
		for i := range o.Requests { // paid units are never released, so sold_out must be right
			if r := &o.Requests[i]; r.Code == "sold_out" {
				h.add(refused, o.Quantity, r.Sent, r.End())
			}
		}
		for _, id := range c.idsOf(o) {
			c.paying(h, o, id)
		}
	}
}

// paying adds the payments of one order.
func (c *Index) paying(h *stockHistory, o *Outcome, id string) {
	p := c.payment(o, id)
	paid := !p.ConfirmedAt.IsZero() || c.rows[id].Status == Paid
	if paid {
		from := p.askedAt
		if from.IsZero() {
			from = o.Requests[0].Sent // no client has paid, which the check WrongAnswer reports
		}
		h.add(bought, o.Quantity, from, p.ConfirmedAt)
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
		case cl.Code == "order_closed": // it may have held units until its order closed
			h.add(tried, o.Quantity, cl.Sent, cl.End())
		case cl.Inconclusive() && !paid, calls > 1 && c.broken:
			h.add(tried, o.Quantity, cl.Sent, never)
		}
	}
}

// never is the end of an operation whose answer is inconclusive: the operation may take
// effect at any time after its call.
var never time.Time

// stockHistory is a list of operations on the stock.
type stockHistory []stockEvent

type stockEvent struct {
	stockOp
	call, end time.Time
}

func (h *stockHistory) add(kind stockKind, units int, call, end time.Time) {
	*h = append(*h, stockEvent{stockOp{kind, units}, call, end})
}

// operations converts the list for porcupine, with times in nanoseconds since the first
// call. An operation gets the first client that is idle, so that the picture has few
// rows.
func (h stockHistory) operations() []porcupine.Operation {
	if len(h) == 0 {
		return nil
	}
	slices.SortStableFunc(h, func(a, b stockEvent) int { return a.call.Compare(b.call) })
	start := h[0].call
	ops := make([]porcupine.Operation, len(h))
	var free []int64 // index: client; value: end of its last operation
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
