package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestJudgePassesADay(t *testing.T) {
	v := Judge(day().end())
	if v.ExitCode() != ExitPass {
		t.Fatalf("%+v", v)
	}
	if v.Pending != 8 || v.Paid != 2 || v.Cancelled != 1 || v.Durable != 6 {
		t.Errorf("counts: %+v", v)
	}
}

func TestJudgePassesAPayday(t *testing.T) {
	v := Judge(payday().end())
	if v.ExitCode() != ExitPass {
		t.Fatalf("%+v", v)
	}
	if v.Pending != 0 || v.Paid != 6 || v.Cancelled != 2 || v.Durable != 7 {
		t.Errorf("counts: %+v", v)
	}
}

// the is the first of a list that is meant.
func the[T any](list []T, is func(T) bool) *T { return &list[slices.IndexFunc(list, is)] }

// Each case bends one honest day, and says what must be found.
func TestJudgeNamesEachViolation(t *testing.T) {
	request := func(e *Evidence, buyer string) *Request {
		return the(e.Requests, func(r Request) bool { return r.Buyer == buyer })
	}
	row := func(e *Evidence, buyer string) *Row { return the(e.Rows, func(r Row) bool { return r.Buyer == buyer }) }
	drop := func(e *Evidence, buyer string) {
		e.Rows = slices.DeleteFunc(e.Rows, func(r Row) bool { return r.Buyer == buyer })
	}
	more := func(e *Evidence, buyer, key string, quantity int, status string) {
		e.Rows = append(e.Rows, Row{Order{"extra-" + key, "S", buyer, quantity, status, time.Time{}, time.Time{}, time.Time{}}, key, ""})
	}
	for name, tc := range map[string]struct {
		bend  func(*Evidence)
		want  string // violations, each with its count
		count int
	}{
		"the audit says oversold":      {func(e *Evidence) { e.Audit.Oversold = 3 }, Oversold, 3},
		"more promised than there is":  {func(e *Evidence) { e.Total = 8 }, Oversold, 2},
		"fresh buyers left units":      {func(e *Evidence) { e.Total = 12 }, Undersold, 2},
		"a row gone":                   {func(e *Evidence) { drop(e, "eve") }, Lost, 1},
		"another quantity stored":      {func(e *Evidence) { row(e, "eve").Quantity = 1 }, Lost, 1},
		"another buyer stored":         {func(e *Evidence) { row(e, "eve").Buyer = "mallory" }, Lost, 1},
		"another SKU stored":           {func(e *Evidence) { row(e, "eve").SKU = "T" }, Lost, 1},
		"rejected after its yes":       {func(e *Evidence) { row(e, "eve").Status = Rejected }, Lost, 1},
		"a row for a refused key":      {func(e *Evidence) { more(e, "gus", "g1", 1, Pending) }, Unannounced, 1},
		"a row nobody asked for":       {func(e *Evidence) { more(e, "gus", "g2", 1, Pending) }, Unannounced, 1},
		"a rejection nobody asked for": {func(e *Evidence) { more(e, "gus", "g2", 1, Rejected) }, Unannounced, 1},
		"two rows for a key":           {func(e *Evidence) { more(e, "ann", "a1", 2, Cancelled) }, Duplicates, 1},
		"two rows nobody asked for": {func(e *Evidence) {
			more(e, "x", "k", 1, Pending)
			more(e, "x", "k", 1, Pending)
			e.Rows[len(e.Rows)-1].ID = "y"
		}, Duplicates, 1},
		"a row listed twice":            {func(e *Evidence) { e.Rows = append(e.Rows, e.Rows[0]) }, Duplicates, 1},
		"two ids in answers":            {func(e *Evidence) { e.Requests[1].Order.ID = "other" }, Duplicates, 1},
		"rows beyond the limit":         {func(e *Evidence) { more(e, "ann", "a2", 1, Paid) }, OverLimit, 1},
		"promises beyond the limit":     {func(e *Evidence) { e.PerBuyerLimit = 1 }, OverLimit, 5},
		"the audit says drift":          {func(e *Evidence) { e.Audit.Drift = -4 }, Drift, -4},
		"the audit does not add up":     {func(e *Evidence) { e.Audit.Available = 3 }, Drift, -3},
		"never at rest":                 {func(e *Evidence) { e.Unsettled = "moving" }, Unsettled, 1},
		"a fault of form":               {func(e *Evidence) { request(e, "gus").Fault = "no X-Request-Id" }, WrongAnswer, 1},
		"500":                           {func(e *Evidence) { request(e, "cyd").Status = 500 }, WrongAnswer, 1},
		"404":                           {func(e *Evidence) { request(e, "gus").Answer = Answer{Status: 404, Code: "not_found"} }, WrongAnswer, 1},
		"not_open":                      {func(e *Evidence) { request(e, "gus").Code = "not_open" }, WrongAnswer, 1},
		"201 for a rejected order":      {func(e *Evidence) { request(e, "eve").Order.Status = Rejected }, WrongAnswer, 1},
		"another's order":               {func(e *Evidence) { request(e, "eve").Order.Buyer = "dan" }, WrongAnswer, 1},
		"a replay that does not say so": {func(e *Evidence) { e.Requests[1].Replayed = false }, WrongAnswer, 1},
		"a replay refused": {func(e *Evidence) {
			e.Requests[1].Answer = Answer{Status: 409, Code: "sold_out"}
			e.Requests[1].Sent = e.Requests[0].End().Add(100 * time.Millisecond)
		}, WrongAnswer, 1},
		"a replay at the limit":  {func(e *Evidence) { e.Requests[1].Answer = Answer{Status: 409, Code: "buyer_limit"} }, WrongAnswer, 1},
		"a limit for nothing":    {func(e *Evidence) { request(e, "gus").Code = "buyer_limit" }, WrongAnswer, 1},
		"paid and not kept":      {func(e *Evidence) { row(e, "dan").Status = Expired }, WrongAnswer, 1},
		"cancelled and not kept": {func(e *Evidence) { row(e, "bob").Status = Paid }, WrongAnswer, 1},
		"cancelled by nobody":    {func(e *Evidence) { row(e, "eve").Status = Cancelled }, WrongAnswer, 1},
		"expired too early": {func(e *Evidence) {
			row(e, "eve").Status, row(e, "eve").ClosedAt = Expired, row(e, "eve").ExpiresAt.Add(-1)
		}, WrongAnswer, 1},
		"no effect":             {func(e *Evidence) { e.Closings[0].Order.Status = Pending }, WrongAnswer, 1},
		"closed without reason": {func(e *Evidence) { e.Closings[1].Answer = Answer{Status: 409, Code: "order_closed"} }, WrongAnswer, 1},
		"closed, then paid in time": {func(e *Evidence) {
			e.Closings[0].Answer = Answer{Status: 409, Code: "order_closed"}
			row(e, "bob").Status, row(e, "bob").PaidAt = Paid, row(e, "bob").ExpiresAt.Add(-1)
		}, WrongAnswer, 1},
		"refunded and taken": {func(e *Evidence) {
			e.Closings[1].Answer = Answer{Status: 409, Code: "order_closed"}
			row(e, "dan").PaidAt = row(e, "dan").ExpiresAt
		}, WrongAnswer, 1},
		"404 to pay":            {func(e *Evidence) { e.Closings[1].Answer = Answer{Status: 404, Code: "not_found"} }, WrongAnswer, 1},
		"audit and rows differ": {func(e *Evidence) { e.Audit.Pending--; e.Audit.Paid++ }, WrongAnswer, 1},
		"not balanced":          {func(e *Evidence) { e.Audit.Balanced = false }, WrongAnswer, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := day().end()
			tc.bend(&e)
			v := Judge(e)
			i := slices.IndexFunc(v.Violations, func(v Violation) bool { return v.Name == tc.want })
			if i < 0 || v.ExitCode() != ExitViolation {
				t.Fatalf("exit %d with %+v, want %s", v.ExitCode(), v.Violations, tc.want)
			}
			got := v.Violations[i]
			if tc.want != WrongAnswer && got.Count != tc.count || got.Detail == "" {
				t.Errorf("%+v, want %d", got, tc.count)
			}
			if tc.want == WrongAnswer && !strings.Contains(got.Detail, "×") {
				t.Errorf("%+v does not say what is wrong", got)
			}
		})
	}
}

// What looks odd and is within the contract.
func TestJudgeAllows(t *testing.T) {
	for name, play := range map[string]func(h *history){
		"a cancellation whose answer was lost": func(h *history) { h.shut(Intent{"eve", "e1"}, true, false) },
		"a payment whose answer was lost":      func(h *history) { h.shut(Intent{"eve", "e1"}, false, false) },
		"an order that expired in its time": func(h *history) {
			row := h.rows[Intent{"eve", "e1"}]
			row.Status, row.ClosedAt = Expired, row.ExpiresAt
		},
		"an order that expired and was paid late": func(h *history) {
			row := h.rows[Intent{"eve", "e1"}]
			row.Status = Expired
			h.shut(Intent{"eve", "e1"}, true, true) // order_closed
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
			h.shut(Intent{"eve", "e1"}, true, true)
			h.ask(Retry, "hal", "h1", 1, true)
		},
		"a stored rejection": func(h *history) {
			h.rows[Intent{"gus", "g1"}] = &Row{Order{"id-r", "S", "gus", 1, Rejected, time.Time{}, time.Time{}, time.Time{}}, "g1", ""}
			h.order = append(h.order, Intent{"gus", "g1"})
		},
		"429, then the same key again": func(h *history) {
			h.Requests = append(h.Requests, Request{Kind: First, Buyer: "hal", Key: "h1", Quantity: 1, Sent: h.now,
				Answer: Answer{Status: 429, Code: "rate_limited"}})
			h.shut(Intent{"eve", "e1"}, true, true)
			h.ask(Retry, "hal", "h1", 1, true)
		},
		"a replay refused by a node that has not heard yet": func(h *history) {
			r := h.Requests[1]
			r.Sent, r.Answer = h.Requests[0].End().Add(99*time.Millisecond), Answer{Status: 409, Code: "sold_out"}
			h.Requests = append(h.Requests, r)
		},
		"a double click refused while the first was under way": func(h *history) {
			r := h.ask(First, "hal", "h1", 2, true) // sold out by now
			h.shut(Intent{"eve", "e1"}, true, true)
			h.ask(Replay, "hal", "h1", 2, true)
			i := len(h.Requests) - 1
			h.Requests[i].Sent = r.Sent // sent together, answered later
			h.Requests[i].Latency = time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := day()
			play(h)
			if v := Judge(h.end()); v.ExitCode() != ExitPass {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestJudgeSaysWhatItCannotTell(t *testing.T) {
	for name, tc := range map[string]struct {
		bend func(*Evidence)
		want string
	}{
		"rows not read":   {func(e *Evidence) { e.Unread, e.Rows, e.Audit = "connection refused", nil, Audit{} }, "lost, unannounced, drift: connection refused"},
		"no fresh buyers": {func(e *Evidence) { e.SoldOut = false }, "undersold: no fresh buyers"},
		"never known":     {func(e *Evidence) { e.Requests = append(e.Requests, Request{Buyer: "hal", Key: "h1", Quantity: 1}) }, "h1 of hal"},
		"doubt after refusal": {func(e *Evidence) {
			e.Requests = append(e.Requests, Request{Buyer: "gus", Key: "g1", Quantity: 1, Sent: e.Requests[0].Sent, Latency: time.Hour})
		}, "g1 of gus"},
		"limited is no answer": {func(e *Evidence) {
			r := Request{Buyer: "hal", Key: "h1", Quantity: 1}
			e.Requests = append(e.Requests, r)
			r.Answer, r.Sent = Answer{Status: 429}, r.Sent.Add(time.Second)
			e.Requests = append(e.Requests, r)
		}, "h1 of hal"},
	} {
		t.Run(name, func(t *testing.T) {
			e := day().end()
			tc.bend(&e)
			v := Judge(e)
			if v.ExitCode() != ExitUnjudged || !strings.Contains(fmt.Sprint(v.Gaps), tc.want) {
				t.Errorf("exit %d, %v, %+v", v.ExitCode(), v.Gaps, v.Violations)
			}
			for _, gap := range v.NotJudged() {
				if gap.Do == "" || !strings.HasSuffix(gap.Advice(), gap.Do) {
					t.Errorf("%s: does not say what to do", gap.Advice())
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
			tc.bend(&e, the(e.Requests, func(r Request) bool { return r.Buyer == "eve" }).Order)
			if v := Judge(e); v.Oversold != tc.want {
				t.Errorf("%d units oversold, want %d: %+v", v.Oversold, tc.want, v.Violations)
			}
		})
	}
}

// play draws an honest sale of many buyers.
func play(t *rapid.T) *history {
	h := newHistory(rapid.IntRange(1, 12).Draw(t, "total"), rapid.IntRange(1, 3).Draw(t, "limit"))
	h.ReserveOn = rapid.SampledFrom([]string{OnOrder, OnPayment}).Draw(t, "reserve on")
	var asked []Intent
	quantities := map[Intent]int{}
	for range rapid.IntRange(5, 60).Draw(t, "steps") {
		heard := rapid.IntRange(0, 5).Draw(t, "heard") > 0
		step := rapid.IntRange(0, 9).Draw(t, "step")
		switch {
		case step < 5 || len(asked) == 0:
			h.keys++
			a := Intent{fmt.Sprintf("b%d", rapid.IntRange(0, 9).Draw(t, "buyer")), fmt.Sprintf("k%d", h.keys)}
			quantities[a] = rapid.IntRange(1, h.PerBuyerLimit).Draw(t, "quantity")
			asked = append(asked, a)
			h.ask(First, a.Buyer, a.Key, quantities[a], heard)
		case step < 7:
			a := rapid.SampledFrom(asked).Draw(t, "again")
			h.ask(Replay, a.Buyer, a.Key, quantities[a], heard)
		default:
			h.shut(rapid.SampledFrom(asked).Draw(t, "close"), step == 7, heard)
		}
	}
	return h
}

func TestJudgeAcceptsEveryHonestSale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := play(t)
		if v := Judge(h.end()); len(v.Violations)+len(v.Gaps) > 0 {
			t.Fatalf("%+v", v)
		}
	})
}

// Any honest sale, bent anywhere: the count is exact. The counts do not come from the
// history, and to prove that no order explains a bent one can take the search its
// whole time: here it has next to none.
func TestJudgeCountsEveryBend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := play(t).end()
		e.Search = time.Millisecond
		i := rapid.IntRange(0, len(e.Rows)-1).Draw(t, "row")
		r := e.Rows[i]
		announced := false // an unheard order that was resolved is announced too
		for _, o := range Outcomes(e.Requests) {
			announced = announced || o.Announced != nil && slices.Contains(o.IDs, r.ID)
		}
		if !announced {
			t.Fatalf("row %s was never announced", r.ID)
		}
		var got, want int
		switch bend := rapid.SampledFrom([]string{Lost, Unannounced, Duplicates, Drift, Undersold}).Draw(t, "bend"); bend {
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
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}
