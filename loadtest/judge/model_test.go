package judge

import (
	"fmt"
	"time"
)

// history simulates a sale that keeps every promise, one call at a time, and collects
// the evidence for Judge.
type history struct {
	Evidence
	now    time.Time
	rows   map[Intent]*Row
	order  []Intent // intents of rows, in order of arrival
	keys   int
	window time.Duration
}

func newHistory(total, limit int) *history {
	return &history{
		Evidence: Evidence{SKU: "S", Total: total, UnitsPerBuyer: limit, SoldOut: true, Feed: &Feed{}},
		now:      time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), rows: map[Intent]*Row{}, window: 15 * time.Minute,
	}
}

// sold returns the units that buyer holds, or all buyers if buyer is "".
func (h *history) sold(buyer string) (units int) {
	for _, row := range h.rows {
		holds := row.Status == Paid || row.Status == Pending && !h.OnPayment()
		if holds && (buyer == "" || row.Buyer == buyer) {
			units += row.Quantity
		}
	}
	return units
}

// refusal returns the code with which an order is refused, or "" if it is accepted.
func (h *history) refusal(buyer string, quantity int) (code string) {
	switch {
	case h.sold(buyer)+quantity > h.UnitsPerBuyer:
		return "buyer_limit"
	case h.sold("")+quantity > h.Total:
		return "sold_out"
	}
	return ""
}

// place sends an order. If answered is false, the client receives no answer.
func (h *history) place(kind Kind, buyer, key string, quantity int, answered bool) Request {
	h.now = h.now.Add(10 * time.Millisecond)
	r := Request{Kind: kind, Attack: kind != Fresh && kind != Retry, Buyer: buyer, Key: key, Quantity: quantity,
		Sent: h.now, Latency: time.Millisecond}
	a := Intent{buyer, key}
	row, replayed := h.rows[a]
	if code := h.refusal(buyer, quantity); row == nil && code != "" {
		r.Answer = Answer{Status: 409, Code: code}
	} else if row == nil {
		row = &Row{Order{fmt.Sprintf("id-%04d", len(h.rows)+1), h.SKU, buyer, quantity, Pending, h.now.Add(h.window), time.Time{}, time.Time{}}, key, ""}
		h.rows[a] = row
		h.order = append(h.order, a)
	}
	if row != nil {
		o := row.Order
		r.Answer = Answer{Status: 201, Order: &o, Replayed: replayed, Location: "/v1/orders/" + o.ID}
	}
	if !answered {
		r.Answer = Answer{}
	}
	h.Requests = append(h.Requests, r)
	h.report()
	return r
}

// closeOrder cancels or pays the order of an intent, if it has one.
func (h *history) closeOrder(a Intent, cancel, answered bool) {
	row := h.rows[a]
	if row == nil {
		return
	}
	h.now = h.now.Add(10 * time.Millisecond)
	c := Closing{Cancel: cancel, OrderID: row.ID, Buyer: row.Buyer, Sent: h.now, Latency: time.Millisecond}
	want := map[bool]string{true: Cancelled, false: Paid}[cancel]
	code := ""
	if h.OnPayment() && !cancel {
		code = h.refusal(row.Buyer, row.Quantity)
	}
	switch {
	case row.Status == Pending && code != "":
		c.Answer = Answer{Status: 409, Code: code}
	case row.Status == Pending:
		row.Status = want
		if cancel {
			row.ClosedAt = h.now
		}
		fallthrough
	case row.Status == want:
		o := row.Order
		c.Answer = Answer{Status: 200, Order: &o}
	case row.Status == Paid:
		c.Answer = Answer{Status: 409, Code: "already_paid"}
	default:
		c.Answer = Answer{Status: 409, Code: "order_closed"}
	}
	if !answered {
		c.Answer = Answer{}
	}
	h.Closings = append(h.Closings, c)
	h.report()
}

// report lets the feed report each row that has changed since its last report.
func (h *history) report() {
	var rows []Row
	for _, a := range h.order {
		rows = append(rows, *h.rows[a])
	}
	for _, row := range h.Feed.Untold(rows) {
		h.Feed.Changes = append(h.Feed.Changes, Change{No: int64(len(h.Feed.Changes)), Order: &row})
	}
}

// end retries the calls without an answer, sells the units that are left, and returns
// the evidence with rows and audit.
func (h *history) end() Evidence {
	for _, o := range Outcomes(h.Requests) {
		if !o.Known() {
			h.place(Retry, o.Buyer, o.Key, o.Quantity, true)
		}
	}
	for _, a := range h.order {
		if p := PaymentOf(h.closingsOf(h.rows[a].ID)); p.Inconclusive && p.ConfirmedAt.IsZero() && h.OnPayment() {
			h.closeOrder(a, false, true)
		}
	}
	for n := 0; ; n++ {
		fresh := Intent{fmt.Sprintf("fresh-%d", n), "k"}
		if r := h.place(Fresh, fresh.Buyer, fresh.Key, 1, true); r.Status != 201 {
			break
		}
		if h.OnPayment() {
			h.closeOrder(fresh, false, true)
		}
	}
	h.report()
	h.Rows = nil
	h.Audit = Audit{SKU: h.SKU, Total: h.Total, Balanced: true}
	for _, a := range h.order {
		row := *h.rows[a]
		h.Rows = append(h.Rows, row)
		switch row.Status {
		case Pending:
			if !h.OnPayment() {
				h.Audit.Pending += row.Quantity
			}
		case Paid:
			h.Audit.Paid += row.Quantity
		}
	}
	h.Audit.Sold = h.Audit.Pending + h.Audit.Paid
	h.Audit.Available = h.Total - h.Audit.Sold
	return h.Evidence
}

func (h *history) closingsOf(id string) (list []Closing) {
	for _, cl := range h.Closings {
		if cl.OrderID == id {
			list = append(list, cl)
		}
	}
	return list
}

// day returns a small fixed sale with at least one event of each kind.
func day() *history {
	h := newHistory(10, 2)
	h.place(First, "ann", "a1", 2, true)
	h.place(Replay, "ann", "a1", 2, true)
	h.place(Second, "ann", "a2", 1, true) // buyer_limit
	h.place(First, "bob", "b1", 1, true)
	h.closeOrder(Intent{"bob", "b1"}, true, true)
	h.place(First, "cyd", "c1", 2, false)
	h.place(First, "dan", "d1", 2, true)
	h.closeOrder(Intent{"dan", "d1"}, false, true)
	h.place(First, "eve", "e1", 2, true)
	h.place(First, "fay", "f1", 2, true)
	h.place(First, "gus", "g1", 1, true) // sold_out
	return h
}

// payday is like day, for a sale in which payments take the units.
func payday() *history {
	h := newHistory(6, 2)
	h.ReserveOn = OnPayment
	for _, buyer := range []string{"ann", "bob", "cyd", "dan", "eve", "fay"} { // orders for twice the stock
		h.place(First, buyer, "k1", 2, true)
	}
	h.place(Replay, "ann", "k1", 2, true)
	h.place(Second, "ann", "k2", 1, true)
	h.closeOrder(Intent{"ann", "k1"}, false, true)
	h.closeOrder(Intent{"ann", "k1"}, false, true)
	h.closeOrder(Intent{"ann", "k2"}, false, true) // buyer_limit
	h.closeOrder(Intent{"bob", "k1"}, true, true)
	h.closeOrder(Intent{"bob", "k1"}, false, true) // order_closed
	h.closeOrder(Intent{"cyd", "k1"}, false, false)
	h.closeOrder(Intent{"dan", "k1"}, false, true)
	h.closeOrder(Intent{"eve", "k1"}, false, true) // sold_out
	h.place(First, "gus", "k1", 1, true)           // sold_out
	return h
}
