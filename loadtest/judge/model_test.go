package judge

import (
	"fmt"
	"time"
)

// history is a sale that keeps every promise, played in one thread: what its
// clients heard and what it stored, for Judge to read.
type history struct {
	Evidence
	now    time.Time
	rows   map[Intent]*Row
	order  []Intent // of the rows
	keys   int
	window time.Duration
}

func newHistory(total, limit int) *history {
	return &history{
		Evidence: Evidence{SKU: "S", Total: total, PerBuyerLimit: limit, SoldOut: true},
		now:      time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), rows: map[Intent]*Row{}, window: 15 * time.Minute,
	}
}

// sold is how many units are, to one buyer or, for "", to all.
func (h *history) sold(buyer string) (units int) {
	for _, row := range h.rows {
		holds := row.Status == Paid || row.Status == Pending && !h.OnPayment()
		if holds && (buyer == "" || row.Buyer == buyer) {
			units += row.Quantity
		}
	}
	return units
}

// fits is why a buyer may not have so many units more, "" if they may.
func (h *history) fits(buyer string, quantity int) (code string) {
	switch {
	case h.sold(buyer)+quantity > h.PerBuyerLimit:
		return "buyer_limit"
	case h.sold("")+quantity > h.Total:
		return "sold_out"
	}
	return ""
}

// ask places an order; heard is false when the answer got lost on its way.
func (h *history) ask(kind Kind, buyer, key string, quantity int, heard bool) Request {
	h.now = h.now.Add(10 * time.Millisecond)
	r := Request{Kind: kind, Attack: kind != Fresh && kind != Retry, Buyer: buyer, Key: key, Quantity: quantity,
		Sent: h.now, Latency: time.Millisecond}
	a := Intent{buyer, key}
	row, replayed := h.rows[a]
	if code := h.fits(buyer, quantity); row == nil && code != "" {
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
	if !heard {
		r.Answer = Answer{}
	}
	h.Requests = append(h.Requests, r)
	return r
}

// shut cancels or pays the order of an ask, if it has one.
func (h *history) shut(a Intent, cancel, heard bool) {
	row := h.rows[a]
	if row == nil {
		return
	}
	h.now = h.now.Add(10 * time.Millisecond)
	c := Closing{Cancel: cancel, OrderID: row.ID, Buyer: row.Buyer, Sent: h.now, Latency: time.Millisecond}
	want := map[bool]string{true: Cancelled, false: Paid}[cancel]
	no := ""
	if h.OnPayment() && !cancel {
		no = h.fits(row.Buyer, row.Quantity)
	}
	switch {
	case row.Status == Pending && no != "":
		c.Answer = Answer{Status: 409, Code: no}
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
	if !heard {
		c.Answer = Answer{}
	}
	h.Closings = append(h.Closings, c)
}

// end resolves what is unknown, sells what is left, and takes stock.
func (h *history) end() Evidence {
	for _, o := range Outcomes(h.Requests) {
		if !o.Known() {
			h.ask(Retry, o.Buyer, o.Key, o.Quantity, true)
		}
	}
	for _, a := range h.order { // and so, with luck, is a payment that nobody heard of
		if p := PaymentOf(h.closingsOf(h.rows[a].ID)); p.Doubted && p.Told.IsZero() && h.OnPayment() {
			h.shut(a, false, true)
		}
	}
	for n := 0; ; n++ {
		fresh := Intent{fmt.Sprintf("fresh-%d", n), "k"}
		if r := h.ask(Fresh, fresh.Buyer, fresh.Key, 1, true); r.Status != 201 {
			break
		}
		if h.OnPayment() {
			h.shut(fresh, false, true)
		}
	}
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

// day is a small sale with something of everything in it, the same each time.
func day() *history {
	h := newHistory(10, 2)
	h.ask(First, "ann", "a1", 2, true)
	h.ask(Replay, "ann", "a1", 2, true)
	h.ask(Second, "ann", "a2", 1, true) // buyer_limit
	h.ask(First, "bob", "b1", 1, true)
	h.shut(Intent{"bob", "b1"}, true, true)
	h.ask(First, "cyd", "c1", 2, false)
	h.ask(First, "dan", "d1", 2, true)
	h.shut(Intent{"dan", "d1"}, false, true)
	h.ask(First, "eve", "e1", 2, true)
	h.ask(First, "fay", "f1", 2, true)
	h.ask(First, "gus", "g1", 1, true) // sold_out
	return h
}

// payday is the same where units are taken on payment.
func payday() *history {
	h := newHistory(6, 2)
	h.ReserveOn = OnPayment
	for _, buyer := range []string{"ann", "bob", "cyd", "dan", "eve", "fay"} { // for twice what there is
		h.ask(First, buyer, "k1", 2, true)
	}
	h.ask(Replay, "ann", "k1", 2, true)
	h.ask(Second, "ann", "k2", 1, true)
	h.shut(Intent{"ann", "k1"}, false, true)
	h.shut(Intent{"ann", "k1"}, false, true)
	h.shut(Intent{"ann", "k2"}, false, true) // buyer_limit
	h.shut(Intent{"bob", "k1"}, true, true)
	h.shut(Intent{"bob", "k1"}, false, true) // order_closed
	h.shut(Intent{"cyd", "k1"}, false, false)
	h.shut(Intent{"dan", "k1"}, false, true)
	h.shut(Intent{"eve", "k1"}, false, true) // sold_out
	h.ask(First, "gus", "k1", 1, true)       // sold_out
	return h
}
