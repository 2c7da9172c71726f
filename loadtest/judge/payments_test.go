package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// If the sale takes units on payment, a confirmed payment is the promise.
func TestJudgePayments(t *testing.T) {
	row := func(e *Evidence, id string) *Row { return find(e.Rows, func(r Row) bool { return r.ID == id }) }
	refusal := func(code string) Answer { return Answer{Status: 409, Code: code} }
	const ann, ann2, bob, cyd, dan, eve = "id-0001", "id-0007", "id-0002", "id-0003", "id-0004", "id-0005"
	lastPayment := func(e *Evidence, id string) *Closing {
		for i := len(e.Closings) - 1; i >= 0; i-- {
			if e.Closings[i].OrderID == id && !e.Closings[i].Cancel {
				return &e.Closings[i]
			}
		}
		panic(id)
	}
	replay := func(e *Evidence, id, status string) { // adds a replay that shows the order with status
		for _, r := range e.Requests {
			if r.Order != nil && r.Order.ID == id {
				o := *r.Order
				r.Kind, r.Replayed, r.Order = Replay, true, &o
				r.Sent, r.Order.Status = e.Closings[len(e.Closings)-1].End(), status
				e.Requests = append(e.Requests, r)
				return
			}
		}
		panic(id)
	}
	for name, tc := range map[string]struct {
		change func(*Evidence)
		want   string
		count  int
	}{
		"more payments confirmed than units":   {func(e *Evidence) { e.Total = 5 }, Oversold, 1},
		"more paid rows than units":            {func(e *Evidence) { row(e, eve).Status = Paid }, Oversold, 2},
		"unpaid rows count as unsold":          {func(e *Evidence) { e.Total = 8 }, Undersold, 2},
		"confirmed as paid, stored as pending": {func(e *Evidence) { row(e, dan).Status = Pending }, Lost, 1},
		"shown as paid, stored as pending":     {func(e *Evidence) { replay(e, eve, Paid) }, Lost, 1},
		"a missing row":                        {func(e *Evidence) { e.Rows = e.Rows[1:] }, Lost, 1},
		"refused, stored as paid":              {func(e *Evidence) { row(e, eve).Status = Paid }, Unannounced, 1},
		"beyond the limit in rows":             {func(e *Evidence) { row(e, ann2).Status = Paid }, OverLimit, 1},
		"beyond the limit in answers":          {func(e *Evidence) { lastPayment(e, ann2).Answer = Answer{Status: 200} }, OverLimit, 1},
		"units missing from the audit":         {func(e *Evidence) { e.Audit.Available-- }, Drift, 1},
		"an audit with pending units":          {func(e *Evidence) { e.Audit.Pending, e.Audit.Paid = 2, e.Audit.Paid-2 }, WrongAnswer, 1},
		"paid again and refused":               {func(e *Evidence) { lastPayment(e, ann).Answer = refusal("sold_out") }, WrongAnswer, 1},
		"buyer_limit without paid orders":      {func(e *Evidence) { lastPayment(e, eve).Answer = refusal("buyer_limit") }, WrongAnswer, 1},
		"paid by no client": {func(e *Evidence) {
			e.Closings = slices.DeleteFunc(e.Closings, func(cl Closing) bool { return cl.OrderID == dan })
		}, WrongAnswer, 1},
		"order_closed for a paid order": {func(e *Evidence) { lastPayment(e, dan).Answer = refusal("order_closed") }, WrongAnswer, 1},
		"already_paid for an expired order": {func(e *Evidence) {
			e.Closings[3].Answer = refusal("already_paid") // to the cancellation of bob
			row(e, bob).Status, row(e, bob).ClosedAt = Expired, row(e, bob).ExpiresAt
		}, WrongAnswer, 1},
		"order_closed for an open order": {func(e *Evidence) {
			e.Closings = slices.Delete(e.Closings, 5, 6) // without the lost call there was no outage
			lastPayment(e, eve).Answer = refusal("order_closed")
		}, WrongAnswer, 1},
		"closed, but the sale is open": {func(e *Evidence) { lastPayment(e, eve).Answer = refusal("closed") }, WrongAnswer, 1},
		"expired too early":            {func(e *Evidence) { row(e, eve).Status = Expired }, WrongAnswer, 1},
		"a replay refused": {func(e *Evidence) {
			r := e.Requests[6] // a replay of ann
			r.Sent, r.Answer = r.End(), refusal("sold_out")
			e.Requests = append(e.Requests, r)
		}, WrongAnswer, 1},
		"refused while units were free": {func(e *Evidence) { lastPayment(e, eve).Sent = e.Requests[7].End() }, History, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := payday().end()
			tc.change(&e)
			v := Judge(e)
			i := slices.IndexFunc(v.Violations, func(v Violation) bool { return v.Name == tc.want })
			if i < 0 || v.Violations[i].Count != tc.count {
				t.Errorf("violations: got %+v, want %s with a count of %d", v.Violations, tc.want, tc.count)
			}
		})
	}
	for name, tc := range map[string]struct {
		change func(*Evidence)
		want   string
	}{
		"no payment received sold_out": {func(e *Evidence) {
			lastPayment(e, eve).Answer = refusal("order_closed")
			row(e, eve).Status = Cancelled
		}, "sell-out, oversold"},
		"no payment beyond the limit": {func(e *Evidence) { e.Closings = slices.Delete(e.Closings, 2, 3) }, "second order, over_limit"},
	} {
		t.Run(name, func(t *testing.T) {
			e := payday().end()
			tc.change(&e)
			if v := Judge(e); !strings.Contains(fmt.Sprint(v.Unexercised), tc.want) {
				t.Errorf("checks that were not exercised: got %v, want %s", v.Unexercised, tc.want)
			}
		})
	}
	for name, change := range map[string]func(*Evidence){
		"an unpaid order that expired": func(e *Evidence) {
			row(e, eve).Status, row(e, eve).ClosedAt = Expired, row(e, eve).ExpiresAt
		},
		"a refund that is due, after an outage": func(e *Evidence) { lastPayment(e, eve).Answer = refusal("order_closed") },
		"429 to a paid order":                   func(e *Evidence) { lastPayment(e, ann).Answer = Answer{Status: 429, Code: "rate_limited"} },
		"refused while a lost payment was in progress": func(e *Evidence) {
			*lastPayment(e, cyd) = Closing{OrderID: cyd, Buyer: "cyd", Sent: e.Closings[5].Sent, Latency: time.Minute, Answer: refusal("sold_out")}
			e.Closings[5].Latency = time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := payday().end()
			change(&e)
			e.Feed = nil // it has reported the rows as they were before the change
			if v := Judge(e); len(v.Violations)+len(v.Gaps) > 0 {
				t.Errorf("verdict: got %+v, want no violations and no gaps", v)
			}
		})
	}
}
