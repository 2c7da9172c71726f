package live

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// selling returns a sale that is open for an hour from noon on.
func selling(sku string, total, sold int64) orders.Sale {
	return orders.Sale{SKU: sku, Total: total, Sold: sold, OpensAt: noon, ClosesAt: noon.Add(time.Hour)}
}

// Changes of a sale leave marks, with and without watchers.
func TestMarks(t *testing.T) {
	at := func(s int64) int64 { return noon.UnixMilli() + 1000*s }
	h := newHistories()
	h.began = noon.Add(-2 * time.Second)
	closed := selling("S", 12, 11)
	closed.ClosesAt = noon.Add(9 * time.Second)
	for _, c := range []struct {
		after int64 // seconds after noon
		sale  orders.Sale
		offer []orders.Offer
		want  []mark
	}{
		{-2, selling("S", 10, 0), nil, nil},
		{0, selling("S", 10, 0), nil, []mark{{at(0), "opened", 10}}},
		{1, selling("S", 10, 4), nil, nil},
		{2, selling("S", 10, 4), []orders.Offer{{Sale: selling("S", 10, 4)}}, []mark{{at(2), "sold_out", 4}}}, // sold out at the gate, before the orders are stored
		{3, selling("S", 10, 9), nil, nil},
		{4, selling("S", 10, 10), nil, nil}, // sold out again after a release
		{5, selling("S", 15, 10), nil, []mark{{at(5), "restocked", 5}}},
		{6, selling("S", 12, 10), nil, []mark{{at(6), "cut", 3}}},
		{7, selling("S", 12, 12), nil, []mark{{at(7), "sold_out", 12}}},
		{8, selling("S", 12, 11), nil, nil},
		{10, closed, nil, []mark{{at(9), "closed", 1}}},
	} {
		got := h.record(noon.Add(time.Duration(c.after)*time.Second), []orders.Sale{c.sale}, c.offer)["S"]
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("marks after %d s: got %v, want %v", c.after, got, c.want)
		}
	}
	var sent struct {
		Began  time.Time
		Points []point
		Marks  []mark
	}
	text := string(h.event("S"))
	check.Must(t, json.Unmarshal([]byte(text[len("event: history\ndata: "):]), &sent))
	if len(sent.Marks) != 6 || len(sent.Points) != 11 || sent.Points[3] != (point{at(2), 0, 4}) || !sent.Began.Equal(noon.Add(-2*time.Second)) {
		t.Errorf("history sent to the page: got %s, want 6 marks and 11 points", text)
	}
	for s := range 11 * 60 {
		h.record(noon.Add(time.Duration(11+s)*time.Second), []orders.Sale{closed}, nil)
	}
	if c, _ := h.sales.Peek("S"); len(c.marks) != 0 || c.points.all()[0].At < at(60) {
		t.Errorf("history after ten minutes: got %+v, want no old marks and points", c)
	}
}

// The history of a new sale begins at its creation, before which no unit was sold.
func TestHistoryOfANewSale(t *testing.T) {
	h := newHistories()
	h.began = noon
	for s := range 3 {
		h.record(noon.Add(time.Duration(s)*time.Second), nil, nil)
	}
	sale := selling("S", 12, 5)
	sale.CreatedAt = noon.Add(2500 * time.Millisecond)
	over := selling("T", 3, 3) // sold out within its first second
	over.CreatedAt = sale.CreatedAt
	h.record(noon.Add(3*time.Second), []orders.Sale{sale, over}, nil)
	c, _ := h.sales.Peek("T")
	if want := []mark{{noon.UnixMilli() + 2500, "opened", 3}, {noon.UnixMilli() + 3000, "sold_out", 3}}; !reflect.DeepEqual(c.marks, want) {
		t.Errorf("marks of a sale that sold out at once: got %v, want %v", c.marks, want)
	}
	c, _ = h.sales.Peek("S")
	if want := []mark{{noon.UnixMilli() + 2500, "opened", 12}}; !reflect.DeepEqual(c.marks, want) {
		t.Errorf("marks: got %v, want %v", c.marks, want)
	}
	if want := []point{{noon.UnixMilli() + 2999, 12, 0}, {noon.UnixMilli() + 3000, 7, 5}}; !reflect.DeepEqual(c.points.all(), want) {
		t.Errorf("points: got %v, want %v", c.points.all(), want)
	}
}

// A history has one point per second for two minutes and one point per five seconds before
// that. Of several points in one second it keeps the last.
func TestPoints(t *testing.T) {
	var c saleHistory
	for ms := int64(0); ms < 1_000_000; ms += 250 {
		c.add(point{At: ms, Sold: ms})
	}
	points := c.points.all()
	if len(points) > 220 || len(points) < 214 {
		t.Errorf("points of the history: got %d, want 214 to 220", len(points))
	}
	last := points[len(points)-1].At
	for i, p := range points[1:] {
		step, age := p.At-points[i].At, last-p.At
		if age < 119_000 && step != 1000 || age > 125_000 && step != 5000 || age > 600_000 {
			t.Errorf("points of the history: got a step of %d ms at an age of %d ms, want 1 s up to 2 minutes, then 5 s, up to 10 minutes", step, age)
		}
	}
}

// At most 100 sales have a history: the sales that changed last. A sale that changed within the
// last minute keeps its history.
func TestHistoriesAreBounded(t *testing.T) {
	sales := make([]orders.Sale, 150)
	for i := range sales {
		sales[i] = selling(fmt.Sprint(i), 10, 0)
	}
	h := newHistories()
	second := func(s int) { h.record(noon.Add(time.Duration(s)*time.Second), sales, nil) }
	has := func(when string, first, rest bool) {
		t.Helper()
		if n, a, b := h.sales.Len(), h.sales.Contains("0"), h.sales.Contains("120"); n != 100 || a != first || b != rest {
			t.Errorf("histories %s: got %d sales, sale 0 kept %v, sale 120 kept %v, want 100, %v, %v", when, n, a, b, first, rest)
		}
	}
	second(0)
	has("at first", true, false)
	sales[120].Sold++
	second(30)
	has("all sales with a history changed within a minute", true, false)
	for i := range 100 {
		sales[i].Sold += int64(min(i, 1)) // all except sale 0
	}
	second(50)
	sales[120].Sold++
	second(70)
	has("sale 0 has not changed for more than a minute", false, true)
	sales = sales[1:121]
	sales[0].Sold++
	second(71)
	if h.sales.Len() != 100 || len(h.last) != 120 {
		t.Errorf("histories: got %d for %d sales, want 100 for 120", h.sales.Len(), len(h.last))
	}
	sales = sales[:50]
	if second(72); len(h.last) != 50 {
		t.Errorf("known sales after a removal: got %d, want 50", len(h.last))
	}
}
