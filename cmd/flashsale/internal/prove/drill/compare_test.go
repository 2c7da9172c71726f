package drill

import (
	"slices"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/judge"
)

// start is when the calls of these tests begin.
var start = time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)

// heard is a call that was sent and answered at these tenths of a second.
func heard(v verb, from, to int, status int, what string) *call {
	c := &call{
		verb: v, buyer: "ann", sku: "S", quantity: 1, status: status,
		sent: start.Add(time.Duration(from) * 100 * time.Millisecond), ended: start.Add(time.Duration(to) * 100 * time.Millisecond),
	}
	switch v {
	case place, look:
		c.key = "k"
	case pay:
		c.order, c.ref = "1", "r"
	case cancel:
		c.order = "1"
	}
	if status != 0 && status < 300 {
		c.got = judge.Order{ID: "1", Status: what}
	} else {
		c.code = what
	}
	return c
}

func stored(status, ref string) row {
	return row{id: "1", sku: "S", buyer: "ann", key: "k", status: status, ref: ref, quantity: 1}
}

// Each promise that the book can break, and next to it what is just allowed.
func TestJudge(t *testing.T) {
	placed := heard(place, 0, 1, 201, "pending_payment")
	other := heard(place, 2, 3, 201, "pending_payment")
	other.got.ID = "2"
	lost := heard(place, 0, 1, 503, "unavailable")
	for name, c := range map[string]struct {
		calls  []*call
		rows   []row
		pauses []pause
		want   string // the kind that is broken; "" for nothing
	}{
		"sold":                             {calls: []*call{placed}, rows: []row{stored("paid", "r")}},
		"a yes without a row":              {calls: []*call{placed}, want: "yes lost"},
		"a yes that was rejected":          {calls: []*call{placed}, rows: []row{stored("rejected", "")}, want: "yes lost"},
		"a yes found by looking":           {calls: []*call{heard(look, 0, 1, 200, "pending_payment")}, want: "yes lost"},
		"reserved is no yes":               {calls: []*call{heard(place, 0, 1, 202, "reserved"), heard(look, 1, 2, 200, "reserved")}},
		"two orders":                       {calls: []*call{placed, other}, rows: []row{stored("paid", "r"), {id: "2", sku: "S", buyer: "ann", key: "k", quantity: 1}}, want: "two orders"},
		"a replay that is refused":         {calls: []*call{placed, heard(place, 2, 3, 409, "sold_out")}, rows: []row{stored("expired", "")}, want: "yes, then no"},
		"a replay that is in progress":     {calls: []*call{placed, heard(place, 2, 3, 409, "in_progress")}, rows: []row{stored("expired", "")}, want: "yes, then no"},
		"a replay that is put off":         {calls: []*call{placed, heard(place, 2, 3, 503, "unavailable")}, rows: []row{stored("expired", "")}},
		"a payment refused, and repeated":  {calls: []*call{placed, heard(pay, 2, 3, 200, "paid"), heard(pay, 4, 5, 409, "buyer_limit"), heard(pay, 6, 7, 200, "paid")}, rows: []row{stored("paid", "r")}, want: "yes, then no"},
		"a cancellation refused, repeated": {calls: []*call{placed, heard(cancel, 2, 3, 200, "cancelled"), heard(cancel, 4, 5, 409, "order_closed"), heard(cancel, 6, 7, 200, "cancelled")}, rows: []row{stored("cancelled", "")}, want: "yes, then no"},
		"a refusal beside the yes":         {calls: []*call{heard(place, 0, 5, 201, "pending_payment"), heard(place, 4, 6, 409, "sold_out")}, rows: []row{stored("expired", "")}},
		"a no that becomes a yes":          {calls: []*call{heard(place, 0, 1, 409, "sold_out")}, rows: []row{stored("expired", "")}, want: "no, then yes"},
		"a no that was rejected":           {calls: []*call{heard(place, 0, 1, 409, "sold_out")}, rows: []row{stored("rejected", "")}},
		"a no too soon after a lost call":  {calls: []*call{lost, heard(place, 10, 11, 409, "sold_out")}, rows: []row{stored("expired", "")}},
		"a no after the deadline":          {calls: []*call{lost, heard(place, 14, 15, 409, "sold_out")}, rows: []row{stored("expired", "")}, want: "no, then yes"},
		"a no while the node stood still":  {calls: []*call{lost, heard(place, 14, 15, 409, "sold_out")}, rows: []row{stored("expired", "")}, pauses: []pause{{node: 0, from: start, to: start.Add(2 * time.Second)}}},
		"a no, and sent again":             {calls: []*call{heard(place, 0, 1, 409, "sold_out"), heard(place, 20, 21, 503, "unavailable")}, rows: []row{stored("expired", "")}},
		"nobody asked":                     {rows: []row{stored("expired", "")}, want: "unasked"},
		"another quantity":                 {calls: []*call{lost}, rows: []row{{id: "1", sku: "S", buyer: "ann", key: "k", status: "paid", quantity: 2}}, want: "unasked"},
		"a payment that is gone":           {calls: []*call{placed, heard(pay, 2, 3, 200, "paid")}, rows: []row{stored("expired", "")}, want: "yes lost"},
		"a payment of another reference":   {calls: []*call{placed, heard(pay, 2, 3, 200, "paid")}, rows: []row{stored("paid", "other")}, want: "yes lost"},
		"a payment that was refused":       {calls: []*call{placed, heard(pay, 2, 3, 409, "order_closed")}, rows: []row{stored("paid", "r")}, want: "no, then yes"},
		"refused, paid by another":         {calls: []*call{placed, heard(pay, 2, 3, 409, "already_paid")}, rows: []row{stored("paid", "other")}},
		"a cancellation that is gone":      {calls: []*call{placed, heard(cancel, 2, 3, 200, "cancelled")}, rows: []row{stored("paid", "r")}, want: "yes lost"},
		"too late to cancel, and not paid": {calls: []*call{placed, heard(cancel, 2, 3, 409, "already_paid")}, rows: []row{stored("expired", "")}, want: "yes lost"},
		"an order that is not found":       {calls: []*call{placed, heard(pay, 2, 3, 404, "not_found")}, rows: []row{stored("expired", "")}, want: "yes lost"},
		"an answer that is none":           {calls: []*call{heard(place, 0, 1, 500, "internal")}, want: "wrong answer"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := compare(c.calls, c.rows, c.pauses)
			kinds := []string{}
			for _, line := range broken {
				kinds = append(kinds, kindOf(line))
			}
			if c.want == "" && len(broken) > 0 || c.want != "" && !slices.Contains(kinds, c.want) {
				t.Errorf("%q, want %q", broken, c.want)
			}
		})
	}
}

// What one read of the database breaks, alone and after another one.
func TestSnapshot(t *testing.T) {
	good := sale{total: 5, sold: 3, open: 3, fence: 2, epoch: 2, rows: 4, paid: 1}
	for name, c := range map[string]struct {
		change func(s *sale)
		want   string
	}{
		"well":            {func(*sale) {}, ""},
		"grown":           {func(s *sale) { s.fence++; s.epoch++; s.rows++; s.paid++ }, ""},
		"oversold":        {func(s *sale) { s.sold, s.open = 6, 6 }, "oversold"},
		"orders too many": {func(s *sale) { s.open = 6 }, "oversold"},
		"miscounted":      {func(s *sale) { s.open = 2 }, "miscounted"},
		"fence":           {func(s *sale) { s.fence-- }, "went back"},
		"epoch":           {func(s *sale) { s.epoch-- }, "went back"},
		"an order":        {func(s *sale) { s.rows-- }, "went back"},
		"a payment":       {func(s *sale) { s.paid-- }, "went back"},
	} {
		t.Run(name, func(t *testing.T) {
			now := good
			c.change(&now)
			s := &snapshot{sales: map[string]sale{"S": now}}
			got := strings.Join(s.judge(&snapshot{sales: map[string]sale{"S": good}}), "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
