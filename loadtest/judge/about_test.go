package judge

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// step is a call of a buyer and its answer, or a row without a key.
type step struct {
	buyer    string
	quantity int
	status   int    // HTTP status of an order; 0 if there was no answer
	row      string // status of a row; empty for an order
	id       string
	key      string // key of a row; empty if the shop stores none
}

// A shop that stores no keys is judged by the ids and the buyers of its rows. An order without an
// answer excuses one row of its buyer, and nothing else.
func TestRowsWithoutKeys(t *testing.T) {
	t.Parallel()
	accepted := step{buyer: "ann", quantity: 1, status: 201, id: "1"}
	row := step{buyer: "ann", quantity: 1, row: Pending, id: "1"}
	lost := step{buyer: "bob", quantity: 1}
	for name, tc := range map[string]struct {
		steps []step
		want  string // names of violations and of gaps
	}{
		"accepted":                         {[]step{accepted, row}, ""},
		"stored without an answer":         {[]step{accepted, row, lost, {buyer: "bob", quantity: 1, row: Pending, id: "2"}}, ""},
		"stored twice without an answer":   {[]step{accepted, row, lost, {buyer: "bob", quantity: 1, row: Pending, id: "2"}, {buyer: "bob", quantity: 1, row: Pending, id: "3"}}, Unannounced},
		"stored twice under one key":       {[]step{accepted, row, lost, {buyer: "bob", quantity: 1, row: Pending, id: "2", key: "kkk"}, {buyer: "bob", quantity: 1, row: Pending, id: "3", key: "kkk"}}, Unannounced},
		"the client gave up, and no row":   {[]step{accepted, row, lost}, Oversold + " " + Undersold + " " + Unannounced},
		"two unknown orders, the second":   {[]step{accepted, row, lost, {buyer: "bob", quantity: 2, status: 503}, {buyer: "bob", quantity: 2, row: Pending, id: "2"}}, Oversold + " " + Undersold + " " + Unannounced},
		"rejected row and unknown order":   {[]step{accepted, row, {buyer: "bob", quantity: 1, status: 409}, lost, {buyer: "bob", quantity: 1, row: Rejected, id: "2"}, {buyer: "bob", quantity: 1, row: Pending, id: "3"}}, ""},
		"refused and stored":               {[]step{accepted, row, {buyer: "bob", quantity: 1, status: 409}, {buyer: "bob", quantity: 1, row: Pending, id: "2"}}, Unannounced},
		"a status that is not counted":     {[]step{accepted, row, lost, {buyer: "bob", quantity: 1, row: "processing", id: "2"}}, WrongAnswer},
		"expired by the shop, not by time": {[]step{accepted, {buyer: "ann", quantity: 1, row: Expired, id: "1"}}, WrongAnswer},
		"no order was accepted":            {[]step{{buyer: "bob", quantity: 1, status: 503}}, "acceptance"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := Evidence{SKU: "S", Total: 9, UnitsPerBuyer: 9, Lacks: Features(), Search: 1, Timeout: time.Millisecond}
			for i, s := range tc.steps {
				order := &Order{ID: s.id, SKU: "S", Buyer: s.buyer, Quantity: s.quantity, Status: Pending}
				if s.row != "" {
					order.Status = s.row
					e.Rows = append(e.Rows, Row{Order: *order, Key: s.key})
					continue
				}
				r := Request{
					Kind: First, Attack: true, Buyer: s.buyer, Key: strings.Repeat("k", i+1), Quantity: s.quantity,
					Sent: time.Unix(int64(i), 0), Latency: time.Millisecond, Answer: Answer{Status: s.status},
				}
				switch s.status {
				case 201:
					r.Order, r.Location = order, "/"
				case 409:
					r.Code = "sold_out"
				}
				e.Requests = append(e.Requests, r)
			}
			e.Audit = AuditOf("S", e.Total, "", e.Rows)
			v := Judge(e)
			var got []string
			for _, one := range v.Violations {
				got = append(got, one.Name)
			}
			for _, gap := range v.Gaps {
				got = append(got, gap.Checks...)
			}
			for _, gap := range v.Unexercised {
				got = append(got, gap.Checks[0]) // the event
			}
			for _, want := range strings.Fields(tc.want) {
				if !slices.Contains(got, want) {
					t.Errorf("verdict: got %v, want %s", got, want)
				}
			}
			if found := slices.DeleteFunc(got, func(s string) bool { return s == "sell-out" || s == Undersold || s == History }); tc.want == "" && len(found) > 0 {
				t.Errorf("verdict: got %v, want nothing: %v", found, v.Violations)
			}
		})
	}
}

// Paying an order that has no time of expiry does not return its units, so a unit that was promised
// to two buyers for a moment is found.
func TestPaymentWithoutExpiry(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	e := Evidence{SKU: "S", Total: 1, UnitsPerBuyer: 1, Audit: Audit{Total: 1, Sold: 1, Paid: 1, Balanced: true}}
	for i, id := range []string{"1", "2"} {
		order := Order{ID: id, SKU: "S", Buyer: "buyer-" + id, Quantity: 1, Status: Pending}
		e.Requests = append(e.Requests, Request{Kind: First, Attack: true, Buyer: order.Buyer, Key: id, Quantity: 1, Sent: at(2 * i), Latency: time.Millisecond, Answer: Answer{Status: 201, Order: &order, Location: "/"}})
		order.Status = []string{Paid, Cancelled}[i]
		e.Rows = append(e.Rows, Row{Order: order, Key: id})
		e.Closings = append(e.Closings, Closing{Cancel: i == 1, OrderID: id, Buyer: order.Buyer, Sent: at(2*i + 1), Latency: time.Millisecond, Answer: Answer{Status: 200}})
	}
	if v := Judge(e); v.NotLinearizable != 1 {
		t.Errorf("a unit that was promised twice for a moment: got %v, want a broken history", v.Violations)
	}
}
