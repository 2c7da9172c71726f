package judge

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// moments is a sale of one unit in which each step is a moment after the last.
type moments struct {
	Evidence
	now time.Time
}

func (m *moments) ask(buyer string, answer Answer) *Request {
	m.now = m.now.Add(time.Second)
	m.Requests = append(m.Requests, Request{
		Kind: First, Buyer: buyer, Key: "k", Quantity: 1, Sent: m.now, Latency: time.Millisecond, Answer: answer,
	})
	return &m.Requests[len(m.Requests)-1]
}

func (m *moments) buy(buyer, status string) *Request {
	o := Order{ID: "id-" + buyer, SKU: "S", Buyer: buyer, Quantity: 1, Status: Pending, ExpiresAt: m.now.Add(time.Hour)}
	r := m.ask(buyer, Answer{Status: 201, Order: &o})
	row := o
	row.Status = status
	m.Rows = append(m.Rows, Row{Order: row, Key: "k"})
	return r
}

// replay sends the order of r once more.
func (m *moments) replay(r *Request) {
	answer := r.Answer
	answer.Replayed = true
	m.ask(r.Buyer, answer).Kind = Replay
}

func (m *moments) refuse(buyer string) *Request {
	return m.ask(buyer, Answer{Status: 409, Code: "sold_out"})
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

// What only the order in time gives away, and what looks like it and is not.
func TestHistory(t *testing.T) {
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
		"refused what was free": {func(m *moments) {
			m.refuse("ann")
			m.buy("bob", Pending)
		}, false},
		"refused while the unit was on its way back": {func(m *moments) {
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
			m.refuse("ann").Latency = 3 * time.Second // served after bob
			m.buy("bob", Pending)
		}, true},
		"a cancellation that nobody heard of": {func(m *moments) {
			m.buy("ann", Cancelled)
			m.cancel("ann", lost)
			m.buy("bob", Pending)
		}, true},
		"an order that nobody heard of": {func(m *moments) {
			m.ask("ann", lost)
			m.Rows = append(m.Rows, Row{Order{ID: "x", SKU: "S", Buyer: "ann", Quantity: 1, Status: Pending}, "k", ""})
			m.refuse("bob")
		}, true},
		"an order that Redis lost": {func(m *moments) {
			m.ask("ann", lost)
			m.refuse("bob")
			m.buy("cyd", Pending)
		}, true},
		"a rejected order": {func(m *moments) {
			m.buy("ann", Rejected).Answer = Answer{Status: 409, Code: "sold_out"}
			m.refuse("bob")
			m.buy("cyd", Pending)
		}, true},
		"paid after it had expired, and sold meanwhile": {func(m *moments) {
			r := m.buy("ann", Paid)
			r.Order.ExpiresAt = m.now.Add(time.Second)
			m.buy("bob", Cancelled)
			m.cancel("bob", ok)
			m.now = m.now.Add(time.Minute)
			m.Closings = append(m.Closings, Closing{OrderID: "id-ann", Buyer: "ann", Sent: m.now, Answer: ok})
		}, true},
		"a unit that never came back": {func(m *moments) {
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
		"refused a payment of what was free": {func(m *moments) {
			m.ReserveOn = OnPayment
			m.buy("ann", Paid)
			m.buy("bob", Pending)
			m.pay("bob", soldOut)
			m.pay("ann", ok)
		}, false},
		"refused an order of what was free": {func(m *moments) {
			m.ReserveOn = OnPayment
			m.buy("ann", Paid)
			m.refuse("bob")
			m.pay("ann", ok)
		}, false},
		"refused a moment before it was paid": {func(m *moments) {
			m.ReserveOn = OnPayment
			m.buy("ann", Paid)
			m.buy("bob", Pending)
			m.pay("bob", soldOut).Latency = 3 * time.Second // served after ann
			m.pay("ann", ok)
		}, true},
		"a payment that nobody heard of": {func(m *moments) {
			m.ReserveOn = OnPayment
			m.buy("ann", Paid)
			m.buy("bob", Pending)
			m.pay("ann", lost)
			m.pay("bob", soldOut)
		}, true},
		"a payment that had the unit, and the order was cancelled": {func(m *moments) {
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
		"a payment sent again, whose key Redis had lost": {func(m *moments) {
			m.ReserveOn, m.Total, m.Audit.Available = OnPayment, 2, 0
			m.buy("ann", Paid)
			m.buy("bob", Pending)
			m.buy("cyd", Paid)
			m.pay("ann", lost)
			m.pay("ann", ok)      // has two units for a while
			m.pay("bob", soldOut) // meanwhile
			m.pay("cyd", ok)
		}, true},
		"paid, and the unit is free all the same": {func(m *moments) {
			m.ReserveOn = OnPayment
			m.buy("ann", Paid)
			m.pay("ann", ok)
			m.Audit.Available = 1
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &moments{Evidence: Evidence{SKU: "S", Total: 1, PerBuyerLimit: 1, SoldOut: true}, now: time.Unix(1e9, 0)}
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
				t.Errorf("%+v", v)
			}
			if tc.explained {
				return
			}
			var page strings.Builder
			if err := WriteHistory(&page, m.Evidence); err != nil || !strings.Contains(page.String(), "on sale") {
				t.Errorf("the history's page: %d bytes, %v", page.Len(), err)
			}
		})
	}
}
