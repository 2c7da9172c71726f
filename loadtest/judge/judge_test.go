package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestJudgePassesHonestSale(t *testing.T) {
	v := Judge(day().end())
	if v.ExitCode() != ExitPass {
		t.Fatalf("verdict on an honest sale: got %+v, want a pass", v)
	}
	if v.Pending != 8 || v.Paid != 2 || v.Cancelled != 1 || v.Durable != 6 {
		t.Errorf("counts of the verdict: got %+v, want pending 8, paid 2, cancelled 1, durable 6", v.Counts)
	}
}

func TestJudgePassesHonestSaleOnPayment(t *testing.T) {
	v := Judge(payday().end())
	if v.ExitCode() != ExitPass {
		t.Fatalf("verdict on an honest sale on payment: got %+v, want a pass", v)
	}
	if v.Pending != 0 || v.Paid != 6 || v.Cancelled != 2 || v.Durable != 7 {
		t.Errorf("counts of the verdict: got %+v, want pending 0, paid 6, cancelled 2, durable 7", v.Counts)
	}
}

// find returns the first element of list that match accepts.
func find[T any](list []T, match func(T) bool) *T { return &list[slices.IndexFunc(list, match)] }

// Each case changes an honest sale in one place and names the violation to be found.
func TestJudgeNamesEachViolation(t *testing.T) {
	request := func(e *Evidence, buyer string) *Request {
		return find(e.Requests, func(r Request) bool { return r.Buyer == buyer })
	}
	row := func(e *Evidence, buyer string) *Row {
		return find(e.Rows, func(r Row) bool { return r.Buyer == buyer })
	}
	drop := func(e *Evidence, buyer string) {
		e.Rows = slices.DeleteFunc(e.Rows, func(r Row) bool { return r.Buyer == buyer })
	}
	more := func(e *Evidence, buyer, key string, quantity int, status string) {
		e.Rows = append(e.Rows, Row{Order{"extra-" + key, "S", buyer, quantity, status, time.Time{}, time.Time{}, time.Time{}}, key, ""})
	}
	for name, tc := range map[string]struct {
		change func(*Evidence)
		want   string // violations, each with its count
		count  int
	}{
		"the audit reports oversold units":     {func(e *Evidence) { e.Audit.Oversold = 3 }, Oversold, 3},
		"more units promised than on sale":     {func(e *Evidence) { e.Total = 8 }, Oversold, 2},
		"units left by fresh buyers":           {func(e *Evidence) { e.Total = 12 }, Undersold, 2},
		"a missing row":                        {func(e *Evidence) { drop(e, "eve") }, Lost, 1},
		"another quantity stored":              {func(e *Evidence) { row(e, "eve").Quantity = 1 }, Lost, 1},
		"another buyer stored":                 {func(e *Evidence) { row(e, "eve").Buyer = "mallory" }, Lost, 1},
		"another SKU stored":                   {func(e *Evidence) { row(e, "eve").SKU = "T" }, Lost, 1},
		"rejected after its announcement":      {func(e *Evidence) { row(e, "eve").Status = Rejected }, Lost, 1},
		"a row for a refused key":              {func(e *Evidence) { more(e, "gus", "g1", 1, Pending) }, Unannounced, 1},
		"a row that no client requested":       {func(e *Evidence) { more(e, "gus", "g2", 1, Pending) }, Unannounced, 1},
		"a rejection that no client requested": {func(e *Evidence) { more(e, "gus", "g2", 1, Rejected) }, Unannounced, 1},
		"two rows for a key":                   {func(e *Evidence) { more(e, "ann", "a1", 2, Cancelled) }, Duplicates, 1},
		"two rows that no client requested": {func(e *Evidence) {
			more(e, "x", "k", 1, Pending)
			more(e, "x", "k", 1, Pending)
			e.Rows[len(e.Rows)-1].ID = "y"
		}, Duplicates, 1},
		"a row listed twice":          {func(e *Evidence) { e.Rows = append(e.Rows, e.Rows[0]) }, Duplicates, 1},
		"two ids in answers":          {func(e *Evidence) { e.Requests[1].Order.ID = "other" }, Duplicates, 1},
		"rows beyond the limit":       {func(e *Evidence) { more(e, "ann", "a2", 1, Paid) }, OverLimit, 1},
		"promises beyond the limit":   {func(e *Evidence) { e.UnitsPerBuyer = 1 }, OverLimit, 5},
		"the audit reports drift":     {func(e *Evidence) { e.Audit.Drift = -4 }, Drift, -4},
		"the audit does not add up":   {func(e *Evidence) { e.Audit.Available = 3 }, Drift, -3},
		"never at rest":               {func(e *Evidence) { e.Unsettled = "moving" }, Unsettled, 1},
		"an answer of the wrong form": {func(e *Evidence) { request(e, "gus").Fault = "no X-Request-Id" }, WrongAnswer, 1},
		"500":                         {func(e *Evidence) { request(e, "cyd").Status = 500 }, WrongAnswer, 1},
		"404":                         {func(e *Evidence) { request(e, "gus").Answer = Answer{Status: 404, Code: "not_found"} }, WrongAnswer, 1},
		"not_open":                    {func(e *Evidence) { request(e, "gus").Code = "not_open" }, WrongAnswer, 1},
		"201 for a rejected order":    {func(e *Evidence) { request(e, "eve").Order.Status = Rejected }, WrongAnswer, 1},
		"the order of another buyer":  {func(e *Evidence) { request(e, "eve").Order.Buyer = "dan" }, WrongAnswer, 1},
		"a replay without its header": {func(e *Evidence) { e.Requests[1].Replayed = false }, WrongAnswer, 1},
		"a replay refused": {func(e *Evidence) {
			e.Requests[1].Answer = Answer{Status: 409, Code: "sold_out"}
			e.Requests[1].Sent = e.Requests[0].End().Add(100 * time.Millisecond)
		}, WrongAnswer, 1},
		"a replay at the limit":                 {func(e *Evidence) { e.Requests[1].Answer = Answer{Status: 409, Code: "buyer_limit"} }, WrongAnswer, 1},
		"buyer_limit for a first order":         {func(e *Evidence) { request(e, "gus").Code = "buyer_limit" }, WrongAnswer, 1},
		"a confirmed payment that expired":      {func(e *Evidence) { row(e, "dan").Status = Expired }, WrongAnswer, 1},
		"a confirmed cancellation that is paid": {func(e *Evidence) { row(e, "bob").Status = Paid }, WrongAnswer, 1},
		"cancelled by no client":                {func(e *Evidence) { row(e, "eve").Status = Cancelled }, WrongAnswer, 1},
		"expired too early": {func(e *Evidence) {
			row(e, "eve").Status, row(e, "eve").ClosedAt = Expired, row(e, "eve").ExpiresAt.Add(-1)
		}, WrongAnswer, 1},
		"a cancellation without effect": {func(e *Evidence) { e.Closings[0].Order.Status = Pending }, WrongAnswer, 1},
		"order_closed for a paid order": {func(e *Evidence) { e.Closings[1].Answer = Answer{Status: 409, Code: "order_closed"} }, WrongAnswer, 1},
		"order_closed, then paid before it expired": {func(e *Evidence) {
			e.Closings[0].Answer = Answer{Status: 409, Code: "order_closed"}
			row(e, "bob").Status, row(e, "bob").PaidAt = Paid, row(e, "bob").ExpiresAt.Add(-1)
		}, WrongAnswer, 1},
		"a refunded payment that paid the order": {func(e *Evidence) {
			e.Closings[1].Answer = Answer{Status: 409, Code: "order_closed"}
			row(e, "dan").PaidAt = row(e, "dan").ExpiresAt
		}, WrongAnswer, 1},
		"404 to pay":            {func(e *Evidence) { e.Closings[1].Answer = Answer{Status: 404, Code: "not_found"} }, WrongAnswer, 1},
		"audit and rows differ": {func(e *Evidence) { e.Audit.Pending--; e.Audit.Paid++ }, WrongAnswer, 1},
		"not balanced":          {func(e *Evidence) { e.Audit.Balanced = false }, WrongAnswer, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := day().end()
			tc.change(&e)
			v := Judge(e)
			i := slices.IndexFunc(v.Violations, func(v Violation) bool { return v.Name == tc.want })
			if i < 0 || v.ExitCode() != ExitViolation {
				t.Fatalf("exit code: got %d with %+v, want %d with %s", v.ExitCode(), v.Violations, ExitViolation, tc.want)
			}
			got := v.Violations[i]
			if tc.want != WrongAnswer && got.Count != tc.count || got.Detail == "" {
				t.Errorf("violation: got %+v, want a count of %d and a detail", got, tc.count)
			}
			if tc.want == WrongAnswer && !strings.Contains(got.Detail, "×") {
				t.Errorf("violation: got %+v, want a detail with a count per kind", got)
			}
			// A broken promise is judged, even without a refusal sold_out and without a replay.
			e.Requests = slices.DeleteFunc(e.Requests, func(r Request) bool { return r.Answer.Code == "sold_out" || r.Kind == Replay })
			v = Judge(e)
			for _, gap := range v.Unexercised {
				if slices.Contains(gap.Checks, tc.want) && slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Name == tc.want }) {
					t.Errorf("broken promise: got the gap %v, want none", gap)
				}
			}
		})
	}
}

// Each case is unusual but within the contract.
func TestJudgeAllows(t *testing.T) {
	for name, play := range map[string]func(h *history){
		"a cancellation whose answer was lost": func(h *history) { h.closeOrder(Intent{"eve", "e1"}, true, false) },
		"a payment whose answer was lost":      func(h *history) { h.closeOrder(Intent{"eve", "e1"}, false, false) },
		"an order that expired at the announced time": func(h *history) {
			row := h.rows[Intent{"eve", "e1"}]
			row.Status, row.ClosedAt = Expired, row.ExpiresAt
		},
		"an order that expired and was paid late": func(h *history) {
			row := h.rows[Intent{"eve", "e1"}]
			row.Status = Expired
			h.closeOrder(Intent{"eve", "e1"}, true, true) // order_closed
			row.Status, row.PaidAt = Paid, row.ExpiresAt
			h.now = row.PaidAt
			h.Closings = append(h.Closings, Closing{OrderID: row.ID, Buyer: row.Buyer, Sent: h.now.Add(1), Answer: Answer{Status: 200}})
		},
		"a 202 that was lost, then another id": func(h *history) {
			o := Order{ID: "lost-1", SKU: "S", Buyer: "hal", Quantity: 1, Status: Reserved}
			r := Request{Kind: First, Buyer: "hal", Key: "h1", Quantity: 1, Sent: h.now, Answer: Answer{Status: 202, Order: &o}}
			h.Requests = append(h.Requests, r)
			r.Kind, r.Answer = Lookup, Answer{Status: 404, Code: "not_found"}
			h.Requests = append(h.Requests, r)
			h.closeOrder(Intent{"eve", "e1"}, true, true)
			h.place(Retry, "hal", "h1", 1, true)
		},
		"a stored rejection": func(h *history) {
			h.rows[Intent{"gus", "g1"}] = &Row{Order{"id-r", "S", "gus", 1, Rejected, time.Time{}, time.Time{}, time.Time{}}, "g1", ""}
			h.order = append(h.order, Intent{"gus", "g1"})
		},
		"429, then the same key again": func(h *history) {
			h.Requests = append(h.Requests, Request{Kind: First, Buyer: "hal", Key: "h1", Quantity: 1, Sent: h.now,
				Answer: Answer{Status: 429, Code: "rate_limited"}})
			h.closeOrder(Intent{"eve", "e1"}, true, true)
			h.place(Retry, "hal", "h1", 1, true)
		},
		"a replay refused by a node that still has it as sold out": func(h *history) {
			r := h.Requests[1]
			r.Sent, r.Answer = h.Requests[0].End().Add(99*time.Millisecond), Answer{Status: 409, Code: "sold_out"}
			h.Requests = append(h.Requests, r)
		},
		"a double click refused while the first request was in progress": func(h *history) {
			r := h.place(First, "hal", "h1", 2, true) // sold_out
			h.closeOrder(Intent{"eve", "e1"}, true, true)
			h.place(Replay, "hal", "h1", 2, true)
			i := len(h.Requests) - 1
			h.Requests[i].Sent = r.Sent // sent together, answered later
			h.Requests[i].Latency = time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := day()
			play(h)
			if v := Judge(h.end()); v.ExitCode() != ExitPass {
				t.Errorf("verdict: got %+v, want a pass", v)
			}
		})
	}
}

func TestPlural(t *testing.T) {
	for want, got := range map[string]string{"1 key": Plural(1, "key"), "2 keys": Plural(2, "key"), "2 entries": Plural(2, "entry"), "1,000 units": Plural(1000, "unit")} {
		if got != want {
			t.Errorf("plural: got %q, want %q", got, want)
		}
	}
}

func TestJudgeReportsGaps(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Evidence)
		want   string
	}{
		"rows not read": {func(e *Evidence) { e.Unread, e.Rows, e.Audit = "connection refused", nil, Audit{} }, "drift, unsettled: connection refused untold, invented: connection refused"},
		"nothing answered": {func(e *Evidence) {
			e.Unread, e.Rows, e.Audit, e.Closings, e.Requests = "refused", nil, Audit{}, nil, []Request{{Buyer: "hal", Key: "h1", Quantity: 1}}
		}, "drift, unsettled, wrong_answer: refused"},
		"no fresh buyers":             {func(e *Evidence) { e.SoldOut = false }, "undersold: no fresh buyers"},
		"an order without any answer": {func(e *Evidence) { e.Requests = append(e.Requests, Request{Buyer: "hal", Key: "h1", Quantity: 1}) }, "h1 of hal"},
		"a lost request that outlasts a refusal": {func(e *Evidence) {
			e.Requests = append(e.Requests, Request{Buyer: "gus", Key: "g1", Quantity: 1, Sent: e.Requests[0].Sent, Latency: time.Hour})
		}, "g1 of gus"},
		"a lost request, then a 429": {func(e *Evidence) {
			r := Request{Buyer: "hal", Key: "h1", Quantity: 1}
			e.Requests = append(e.Requests, r)
			r.Answer, r.Sent = Answer{Status: 429}, r.Sent.Add(time.Second)
			e.Requests = append(e.Requests, r)
		}, "h1 of hal"},
	} {
		t.Run(name, func(t *testing.T) {
			e := day().end()
			tc.change(&e)
			v := Judge(e)
			if v.ExitCode() != ExitUnjudged || !strings.Contains(fmt.Sprint(v.Gaps), tc.want) {
				t.Errorf("verdict on incomplete evidence: got exit code %d with gaps %v and violations %+v, want %d with a gap %q",
					v.ExitCode(), v.Gaps, v.Violations, ExitUnjudged, tc.want)
			}
			for _, gap := range v.NotJudged() {
				if gap.Do == "" || !strings.HasSuffix(gap.Advice(), gap.Do) {
					t.Errorf("gap %q: got no advice, want what the operator can do", gap.Advice())
				}
			}
		})
	}
}

// If the rows could not be read, an order that may have been cancelled or may have
// expired is no longer a promise. The other orders still are.
func TestJudgeCountsPromisesWithoutRows(t *testing.T) {
	for name, tc := range map[string]struct {
		bend func(e *Evidence, eve *Order)
		want int // oversold units
	}{
		"all promises stand":          {func(*Evidence, *Order) {}, 1},
		"a cancel without an answer":  {func(e *Evidence, eve *Order) { e.Closings = append(e.Closings, Closing{OrderID: eve.ID, Cancel: true}) }, 0},
		"a payment without an answer": {func(e *Evidence, eve *Order) { e.Closings = append(e.Closings, Closing{OrderID: eve.ID}) }, 1},
		"the time to pay is over":     {func(e *Evidence, eve *Order) { eve.ExpiresAt = e.Requests[0].Sent }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := day().end()
			e.Unread, e.Rows, e.Audit = "connection refused", nil, Audit{}
			e.Total = 9
			tc.bend(&e, find(e.Requests, func(r Request) bool { return r.Buyer == "eve" }).Order)
			if v := Judge(e); v.Oversold != tc.want {
				t.Errorf("units oversold: got %d, want %d: %+v", v.Oversold, tc.want, v.Violations)
			}
		})
	}
}

// play draws a random honest sale of up to ten buyers.
func play(t *rapid.T) *history {
	h := newHistory(rapid.IntRange(1, 12).Draw(t, "total"), rapid.IntRange(1, 3).Draw(t, "limit"))
	h.ReserveOn = rapid.SampledFrom([]string{OnOrder, OnPayment}).Draw(t, "reserve on")
	var asked []Intent
	quantities := map[Intent]int{}
	for range rapid.IntRange(5, 60).Draw(t, "steps") {
		answered := rapid.IntRange(0, 5).Draw(t, "answered") > 0
		step := rapid.IntRange(0, 9).Draw(t, "step")
		switch {
		case step < 5 || len(asked) == 0:
			h.keys++
			a := Intent{fmt.Sprintf("b%d", rapid.IntRange(0, 9).Draw(t, "buyer")), fmt.Sprintf("k%d", h.keys)}
			quantities[a] = rapid.IntRange(1, h.UnitsPerBuyer).Draw(t, "quantity")
			asked = append(asked, a)
			h.place(First, a.Buyer, a.Key, quantities[a], answered)
		case step < 7:
			a := rapid.SampledFrom(asked).Draw(t, "again")
			h.place(Replay, a.Buyer, a.Key, quantities[a], answered)
		default:
			h.closeOrder(rapid.SampledFrom(asked).Draw(t, "close"), step == 7, answered)
		}
	}
	return h
}

func TestJudgeAcceptsEveryHonestSale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := play(t)
		if v := Judge(h.end()); len(v.Violations)+len(v.Gaps) > 0 {
			t.Fatalf("verdict: got %+v, want no violations and no gaps", v)
		}
	})
}

// If an honest sale is changed in one place, the count is exact. The search of the
// history gets almost no time, because the counts do not depend on it.
func TestJudgeCountsEachChangeExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := play(t).end()
		e.Search = time.Millisecond
		i := rapid.IntRange(0, len(e.Rows)-1).Draw(t, "row")
		r := e.Rows[i]
		announced := false
		for _, o := range Outcomes(e.Requests) {
			announced = announced || o.Announced != nil && slices.Contains(o.IDs, r.ID)
		}
		if !announced {
			t.Fatalf("row %s: got no announcement, want one after the retries of the last requests", r.ID)
		}
		var got, want int
		switch rapid.SampledFrom([]string{Lost, Unannounced, Duplicates, Drift, Undersold}).Draw(t, "change") {
		case Lost:
			e.Rows = slices.Delete(e.Rows, i, i+1)
			got, want = Judge(e).Lost, 1
		case Unannounced:
			e.Requests = slices.DeleteFunc(e.Requests, func(q Request) bool { return q.Buyer == r.Buyer && q.Key == r.Key })
			got, want = Judge(e).Unannounced, 1
		case Duplicates:
			r.ID = "twin"
			e.Rows = append(e.Rows, r)
			got, want = Judge(e).Duplicates, 1
		case Drift:
			n := rapid.IntRange(1, 9).Draw(t, "n")
			e.Audit.Available -= n
			got, want = Judge(e).Drift, n
		case Undersold:
			n := rapid.IntRange(1, 9).Draw(t, "n")
			e.Total += n
			got, want = Judge(e).Undersold, n
		}
		if got != want {
			t.Fatalf("changes that the judge counts: got %d, want %d", got, want)
		}
	})
}
