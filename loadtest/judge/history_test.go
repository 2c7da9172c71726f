package judge

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// moments builds the evidence of a small sale, with one second between its steps.
type moments struct {
	Evidence
	now time.Time
}

func (m *moments) place(buyer string, answer Answer) *Request {
	m.now = m.now.Add(time.Second)
	m.Requests = append(m.Requests, Request{
		Kind: First, Buyer: buyer, Key: "k", Quantity: 1, Sent: m.now, Latency: time.Millisecond, Answer: answer,
	})
	return &m.Requests[len(m.Requests)-1]
}

func (m *moments) buy(buyer, status string) *Request {
	o := Order{ID: "id-" + buyer, SKU: "S", Buyer: buyer, Quantity: 1, Status: Pending, ExpiresAt: m.now.Add(time.Hour)}
	r := m.place(buyer, Answer{Status: 201, Order: &o})
	row := o
	row.Status = status
	m.Rows = append(m.Rows, Row{Order: row, Key: "k"})
	return r
}

// replay repeats the request r and its answer.
func (m *moments) replay(r *Request) {
	answer := r.Answer
	answer.Replayed = true
	m.place(r.Buyer, answer).Kind = Replay
}

func (m *moments) refuse(buyer string) *Request {
	return m.place(buyer, Answer{Status: 409, Code: "sold_out"})
}

func (m *moments) cancel(buyer string, answer Answer) {
	m.now = m.now.Add(time.Second)
	m.Closings = append(m.Closings, Closing{Cancel: true, OrderID: "id-" + buyer, Buyer: buyer, Sent: m.now, Latency: time.Millisecond, Answer: answer})
}

func (m *moments) pay(buyer string, answer Answer) *Closing {
	m.now = m.now.Add(time.Second)
	m.Closings = append(m.Closings, Closing{OrderID: "id-" + buyer, Buyer: buyer, Sent: m.now, Latency: time.Millisecond, Answer: answer})
	return &m.Closings[len(m.Closings)-1]
}

// In the cases that cannot be explained, all sums are right at the end. Only the order
// of events in time is wrong.
func TestHistoryCheck(t *testing.T) {
	ok, lost, soldOut := Answer{Status: 200}, Answer{}, Answer{Status: 409, Code: "sold_out"}
	for name, tc := range map[string]struct {
		play      func(m *moments)
		explained bool
	}{
		"sold, cancelled, sold again": {func(m *moments) {
			m.buy("ann", Cancelled)
			m.refuse("bob")
			m.cancel("ann", ok)
			m.buy("cyd", Pending)
			m.refuse("dan")
		}, true},
		"sold twice for a moment": {func(m *moments) {
			m.buy("ann", Cancelled)
			m.buy("bob", Pending)
			m.cancel("ann", ok)
		}, false},
		"refused while the unit was free": {func(m *moments) {
			m.refuse("ann")
			m.buy("bob", Pending)
		}, false},
		"refused before the unit was released": {func(m *moments) {
			m.buy("ann", Cancelled)
			m.cancel("ann", ok)
			m.refuse("bob")
			m.buy("cyd", Pending)
		}, true},
		"refused while a replay held the last unit": {func(m *moments) {
			m.Total, m.Audit.Available = 2, 0
			m.replay(m.buy("ann", Pending))
			m.refuse("bob")
			m.buy("cyd", Pending)
		}, true},
		"refused before the replay": {func(m *moments) {
			m.Total, m.Audit.Available = 2, 0
			r := m.buy("ann", Pending)
			m.refuse("bob")
			m.buy("cyd", Pending)
			m.replay(r)
		}, false},
		"refused a moment before it was sold": {func(m *moments) {
			m.refuse("ann").Latency = 3 * time.Second // may be served after bob
			m.buy("bob", Pending)
		}, true},
		"a cancellation without an answer": {func(m *moments) {
			m.buy("ann", Cancelled)
			m.cancel("ann", lost)
			m.buy("bob", Pending)
		}, true},
		"an order without an answer": {func(m *moments) {
			m.place("ann", lost)
			m.Rows = append(m.Rows, Row{Order{ID: "x", SKU: "S", Buyer: "ann", Quantity: 1, Status: Pending}, "k", ""})
			m.refuse("bob")
		}, true},
		"an order that Redis lost": {func(m *moments) {
			m.place("ann", lost)
			m.refuse("bob")
			m.buy("cyd", Pending)
		}, true},
		"a rejected order": {func(m *moments) {
			m.buy("ann", Rejected).Answer = Answer{Status: 409, Code: "sold_out"}
			m.refuse("bob")
			m.buy("cyd", Pending)
		}, true},
		"paid late, after its unit was sold and released again": {func(m *moments) {
			r := m.buy("ann", Paid)
			r.Order.ExpiresAt = m.now.Add(time.Second)
			m.buy("bob", Cancelled)
			m.cancel("bob", ok)
			m.now = m.now.Add(time.Minute)
			m.Closings = append(m.Closings, Closing{OrderID: "id-ann", Buyer: "ann", Sent: m.now, Answer: ok})
		}, true},
		"a unit that was never released": {func(m *moments) {
			m.buy("ann", Cancelled)
			m.cancel("ann", ok)
			m.Audit.Available = 0
		}, false},
		"ordered twice, paid once": {func(m *moments) {
			m.ReserveOn = OnPayment
			m.buy("ann", Paid)
			m.buy("bob", Pending)
			m.pay("ann", ok)
			m.pay("bob", soldOut)
			m.refuse("cyd")
		}, true},
		"a payment refused while the unit was free": {func(m *moments) {
			m.ReserveOn = OnPayment
			m.buy("ann", Paid)
			m.buy("bob", Pending)
			m.pay("bob", soldOut)
			m.pay("ann", ok)
		}, false},
		"an order refused while the unit was free": {func(m *moments) {
			m.ReserveOn = OnPayment
			m.buy("ann", Paid)
			m.refuse("bob")
			m.pay("ann", ok)
		}, false},
		"refused a moment before it was paid": {func(m *moments) {
			m.ReserveOn = OnPayment
			m.buy("ann", Paid)
			m.buy("bob", Pending)
			m.pay("bob", soldOut).Latency = 3 * time.Second // may be served after ann
			m.pay("ann", ok)
		}, true},
		"a payment without an answer": {func(m *moments) {
			m.ReserveOn = OnPayment
			m.buy("ann", Paid)
			m.buy("bob", Pending)
			m.pay("ann", lost)
			m.pay("bob", soldOut)
		}, true},
		"a payment that held the unit until its order was cancelled": {func(m *moments) {
			m.ReserveOn = OnPayment
			m.buy("ann", Cancelled)
			m.buy("bob", Pending)
			m.buy("cyd", Paid)
			m.pay("ann", Answer{Status: 409, Code: "order_closed"}).Latency = 2 * time.Second
			m.cancel("ann", ok)
			m.pay("bob", soldOut)
			m.pay("cyd", ok)
		}, true},
		"a payment that Redis lost": {func(m *moments) {
			m.ReserveOn = OnPayment
			m.buy("ann", Pending)
			m.buy("bob", Paid)
			m.pay("ann", lost)
			m.pay("ann", soldOut)
			m.pay("bob", ok)
		}, true},
		"a payment retried after Redis lost its key": {func(m *moments) {
			m.ReserveOn, m.Total, m.Audit.Available = OnPayment, 2, 0
			m.buy("ann", Paid)
			m.buy("bob", Pending)
			m.buy("cyd", Paid)
			m.pay("ann", lost)
			m.pay("ann", ok) // may hold two units for a while
			m.pay("bob", soldOut)
			m.pay("cyd", ok)
		}, true},
		"paid, but the audit shows the unit as available": {func(m *moments) {
			m.ReserveOn = OnPayment
			m.buy("ann", Paid)
			m.pay("ann", ok)
			m.Audit.Available = 1
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &moments{Evidence: Evidence{SKU: "S", Total: 1, UnitsPerBuyer: 1, SoldOut: true}, now: time.Unix(1e9, 0)}
			m.Audit.Available = -1
			tc.play(m)
			if m.Audit.Available < 0 {
				m.Audit.Available = 1
				for _, row := range m.Rows {
					if row.Status == Paid || row.Status == Pending && !m.OnPayment() {
						m.Audit.Available--
					}
				}
			}
			v := Judge(m.Evidence)
			broken := slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Name == History })
			if broken == tc.explained || v.Undecided {
				t.Errorf("check of the history: got %+v, want a history that is explained: %v", v, tc.explained)
			}
			if tc.explained {
				return
			}
			var page strings.Builder
			if err := WriteHistory(&page, m.Evidence); err != nil || !strings.Contains(page.String(), "on sale") {
				t.Errorf("WriteHistory: got %d bytes and error %v, want a page with the states", page.Len(), err)
			}
		})
	}
}
