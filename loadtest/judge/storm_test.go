package judge

import (
	"slices"
	"testing"
	"time"
)

// The evidence of a run with faults: each promise that answers can break, next to similar
// answers that are allowed.
func TestJudgeUnderFaults(t *testing.T) {
	start := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	tenths := func(n int) time.Time { return start.Add(time.Duration(n) * 100 * time.Millisecond) }
	answer := func(status int, what string) Answer {
		if status != 0 && status < 300 {
			return Answer{Status: status, Order: &Order{ID: "1", Buyer: "ann", SKU: "S", Quantity: 1, Status: what, ExpiresAt: tenths(30)}}
		}
		return Answer{Status: status, Code: what}
	}
	type call func(*Evidence)
	// from and to are the times of a call and its answer, in tenths of a second.
	on := func(verb string) func(from, to, status int, what string) call {
		return func(from, to, status int, what string) call {
			sent, latency, a := tenths(from), tenths(to).Sub(tenths(from)), answer(status, what)
			return func(e *Evidence) {
				if verb == string(First) || verb == string(Lookup) {
					a.Replayed = len(e.Requests) > 0
					e.Requests = append(e.Requests, Request{Kind: Kind(verb), Buyer: "ann", Key: "k", Quantity: 1, Sent: sent, Latency: latency, Answer: a})
					return
				}
				e.Closings = append(e.Closings, Closing{Cancel: verb == "", OrderID: "1", Buyer: "ann", Ref: verb, Sent: sent, Latency: latency, Answer: a})
			}
		}
	}
	place, look, pay, cancel := on(string(First)), on(string(Lookup)), on("r"), on("")
	stored := func(id, status, ref string, quantity int) []Row {
		o := Order{ID: id, SKU: "S", Buyer: "ann", Quantity: quantity, Status: status, ExpiresAt: tenths(30), ClosedAt: tenths(30)}
		if status == Paid {
			o.ClosedAt, o.PaidAt = time.Time{}, tenths(2)
		}
		return []Row{{o, "k", ref}}
	}
	expired, paid, cancelled, rejected := stored("1", Expired, "", 1), stored("1", Paid, "r", 1), stored("1", Cancelled, "", 1), stored("1", Rejected, "", 1)
	placed, lost := place(0, 1, 201, Pending), place(0, 1, 503, "unavailable")
	paying := pay(2, 3, 200, Paid)
	other := func(e *Evidence) {
		place(2, 3, 201, Pending)(e)
		e.Requests[1].Order.ID = "2"
	}
	for name, c := range map[string]struct {
		calls []call
		rows  []Row
		pause int // tenths of a second from the start
		want  string
	}{
		"sold":                                        {calls: []call{placed, paying}, rows: paid},
		"an acceptance without a row":                 {calls: []call{placed}, want: Lost},
		"an acceptance that was rejected":             {calls: []call{placed}, rows: rejected, want: Lost},
		"an acceptance found by looking":              {calls: []call{look(0, 1, 200, Pending)}, want: Lost},
		"reserved is no acceptance":                   {calls: []call{place(0, 1, 202, Reserved), look(1, 2, 200, Reserved)}},
		"two orders":                                  {calls: []call{placed, other}, rows: append(stored("2", Expired, "", 1), expired...), want: Duplicates},
		"a replay that is refused":                    {calls: []call{placed, place(2, 3, 409, "sold_out")}, rows: expired, want: WrongAnswer},
		"a replay that is refused at once":            {calls: []call{placed, place(1, 2, 409, "sold_out")}, rows: expired, want: WrongAnswer},
		"a replay that is in progress":                {calls: []call{placed, place(2, 3, 409, "in_progress")}, rows: expired, want: WrongAnswer},
		"a replay that is answered with 503":          {calls: []call{placed, place(2, 3, 503, "unavailable")}, rows: expired},
		"a payment refused, and repeated":             {calls: []call{placed, paying, pay(4, 5, 409, "buyer_limit"), pay(6, 7, 200, Paid)}, rows: paid, want: WrongAnswer},
		"a cancellation refused, and repeated":        {calls: []call{placed, cancel(2, 3, 200, Cancelled), cancel(4, 5, 409, "order_closed"), cancel(6, 7, 200, Cancelled)}, rows: cancelled, want: WrongAnswer},
		"in_progress after a confirmed payment":       {calls: []call{placed, paying, pay(4, 5, 409, "in_progress")}, rows: paid, want: WrongAnswer},
		"in_progress after a confirmed cancellation":  {calls: []call{placed, cancel(2, 3, 200, Cancelled), cancel(4, 5, 409, "in_progress")}, rows: cancelled, want: WrongAnswer},
		"a refusal at the time of the acceptance":     {calls: []call{place(0, 5, 201, Pending), place(4, 6, 409, "sold_out")}, rows: expired},
		"a refusal that becomes an acceptance":        {calls: []call{place(0, 1, 409, "sold_out")}, rows: expired, want: Unannounced},
		"a refusal that was rejected":                 {calls: []call{place(0, 1, 409, "sold_out")}, rows: rejected},
		"a refusal too soon after a lost call":        {calls: []call{lost, place(10, 11, 409, "sold_out")}, rows: expired},
		"a refusal after the deadline":                {calls: []call{lost, place(14, 15, 409, "sold_out")}, rows: expired, want: Unannounced},
		"a refusal while the node was stopped":        {calls: []call{lost, place(14, 15, 409, "sold_out")}, rows: expired, pause: 20},
		"a refusal, then a 503":                       {calls: []call{place(0, 1, 409, "sold_out"), place(20, 21, 503, "unavailable")}, rows: expired},
		"an order that no buyer asked for":            {rows: expired, want: Unannounced},
		"another quantity":                            {calls: []call{lost}, rows: stored("1", Expired, "", 2), want: Unannounced},
		"a confirmed payment that is not stored":      {calls: []call{placed, paying}, rows: expired, want: WrongAnswer},
		"a payment of another reference":              {calls: []call{placed, paying}, rows: stored("1", Paid, "other", 1), want: WrongAnswer},
		"a payment that was refused":                  {calls: []call{placed, pay(2, 3, 409, "order_closed")}, rows: paid, want: Unannounced},
		"a payment refused too soon after a lost one": {calls: []call{placed, pay(2, 3, 0, ""), pay(10, 11, 409, "order_closed")}, rows: paid},
		"a payment refused with sold_out":             {calls: []call{placed, pay(31, 32, 409, "sold_out")}, rows: expired},
		"a payment refused, and paid by another":      {calls: []call{placed, on("other")(2, 3, 200, Paid), pay(4, 5, 409, "already_paid")}, rows: stored("1", Paid, "other", 1)},
		"a confirmed cancellation that is not stored": {calls: []call{placed, cancel(2, 3, 200, Cancelled), pay(2, 3, 0, "")}, rows: paid, want: WrongAnswer},
		"already_paid for an expired order":           {calls: []call{placed, cancel(2, 3, 409, "already_paid")}, rows: expired, want: WrongAnswer},
		"a payment answered with 404":                 {calls: []call{placed, pay(2, 3, 404, "not_found")}, rows: expired, want: WrongAnswer},
		"an answer that the contract does not have":   {calls: []call{place(0, 1, 500, "internal")}, want: WrongAnswer},
		"an order that expired before its time":       {calls: []call{placed}, rows: []Row{{Order{"1", "S", "ann", 1, Expired, tenths(30), time.Time{}, tenths(17)}, "k", ""}}, want: WrongAnswer},
		"an order that no buyer has paid":             {calls: []call{placed}, rows: paid, want: WrongAnswer},
		"a replay without its header":                 {calls: []call{placed, func(e *Evidence) { placed(e); e.Requests[1].Replayed = false }}, rows: expired, want: WrongAnswer},
		"buyer_limit for a first order":               {calls: []call{place(0, 1, 409, "buyer_limit")}, want: WrongAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			e := Evidence{SKU: "S", UnitsPerBuyer: 2, Changing: true, MaxEffectDelay: 1200 * time.Millisecond, Rows: c.rows}
			if c.pause > 0 {
				e.Pauses = []Pause{{From: start, To: tenths(c.pause)}}
			}
			for _, call := range c.calls {
				call(&e)
			}
			found := Judge(e).Violations
			if c.want == "" && len(found) > 0 || c.want != "" && !slices.ContainsFunc(found, func(v Violation) bool { return v.Name == c.want }) {
				t.Errorf("violations under faults: got %+v, want %q", found, c.want)
			}
		})
	}
}
