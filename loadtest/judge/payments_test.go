package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Where units are taken on payment: "paid" is judged as a 201 is elsewhere.
func TestJudgePayments(t *testing.T) {
	row := func(e *Evidence, id string) *Row { return the(e.Rows, func(r Row) bool { return r.ID == id }) }
	no := func(code string) Answer { return Answer{Status: 409, Code: code} }
	const ann, ann2, bob, cyd, dan, eve = "id-0001", "id-0007", "id-0002", "id-0003", "id-0004", "id-0005"
	pays := func(e *Evidence, id string) *Closing { // the last time
		for i := len(e.Closings) - 1; i >= 0; i-- {
			if e.Closings[i].OrderID == id && !e.Closings[i].Cancel {
				return &e.Closings[i]
			}
		}
		panic(id)
	}
	heard := func(e *Evidence, id, status string) { // of an order that is asked for again
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
		bend  func(*Evidence)
		want  string
		count int // of units or orders
	}{
		"more told paid than there is": {func(e *Evidence) { e.Total = 5 }, Oversold, 1},
		"more paid rows than there is": {func(e *Evidence) { row(e, eve).Status = Paid }, Oversold, 2},
		"unpaid rows are not sold":     {func(e *Evidence) { e.Total = 8 }, Undersold, 2},
		"paid, and its row is not":     {func(e *Evidence) { row(e, dan).Status = Pending }, Lost, 1},
		"shown as paid, and is not":    {func(e *Evidence) { heard(e, eve, Paid) }, Lost, 1},
		"a row gone":                   {func(e *Evidence) { e.Rows = e.Rows[1:] }, Lost, 1},
		"refused, and its row is paid": {func(e *Evidence) { row(e, eve).Status = Paid }, Unannounced, 1},
		"beyond the limit in rows":     {func(e *Evidence) { row(e, ann2).Status = Paid }, OverLimit, 1},
		"beyond the limit, as told":    {func(e *Evidence) { pays(e, ann2).Answer = Answer{Status: 200} }, OverLimit, 1},
		"units that are nowhere":       {func(e *Evidence) { e.Audit.Available-- }, Drift, 1},
		"an audit with pending units":  {func(e *Evidence) { e.Audit.Pending, e.Audit.Paid = 2, e.Audit.Paid-2 }, WrongAnswer, 1},
		"paid again and refused":       {func(e *Evidence) { pays(e, ann).Answer = no("sold_out") }, WrongAnswer, 1},
		"a limit for nothing":          {func(e *Evidence) { pays(e, eve).Answer = no("buyer_limit") }, WrongAnswer, 1},
		"paid by nobody": {func(e *Evidence) {
			e.Closings = slices.DeleteFunc(e.Closings, func(cl Closing) bool { return cl.OrderID == dan })
		}, WrongAnswer, 1},
		"closed without reason": {func(e *Evidence) { pays(e, dan).Answer = no("order_closed") }, WrongAnswer, 1},
		"already paid, and is not": {func(e *Evidence) {
			e.Closings[3].Answer = no("already_paid") // of bob, who cancels
			row(e, bob).Status, row(e, bob).ClosedAt = Expired, row(e, bob).ExpiresAt
		}, WrongAnswer, 1},
		"a refund for no reason": {func(e *Evidence) {
			e.Closings = slices.Delete(e.Closings, 5, 6) // the one that was lost
			pays(e, eve).Answer = no("order_closed")
		}, WrongAnswer, 1},
		"a sale that is on": {func(e *Evidence) { pays(e, eve).Answer = no("closed") }, WrongAnswer, 1},
		"expired too early": {func(e *Evidence) { row(e, eve).Status = Expired }, WrongAnswer, 1},
		"a replay refused": {func(e *Evidence) {
			r := e.Requests[6] // ann's
			r.Sent, r.Answer = r.End(), no("sold_out")
			e.Requests = append(e.Requests, r)
		}, WrongAnswer, 1},
		"refused while units were free": {func(e *Evidence) { pays(e, eve).Sent = e.Requests[7].End() }, History, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := payday().end()
			tc.bend(&e)
			v := Judge(e)
			i := slices.IndexFunc(v.Violations, func(v Violation) bool { return v.Name == tc.want })
			if i < 0 || v.Violations[i].Count != tc.count {
				t.Errorf("%+v, want %d %s", v.Violations, tc.count, tc.want)
			}
		})
	}
	for name, tc := range map[string]struct {
		bend func(*Evidence)
		want string
	}{
		"nobody fought":   {func(e *Evidence) { pays(e, eve).Answer = no("order_closed"); row(e, eve).Status = Cancelled }, "sell-out"},
		"nobody too keen": {func(e *Evidence) { e.Closings = slices.Delete(e.Closings, 2, 3) }, "second order"},
	} {
		t.Run(name, func(t *testing.T) {
			e := payday().end()
			tc.bend(&e)
			if v := Judge(e); !strings.Contains(fmt.Sprint(v.Unexercised), tc.want) {
				t.Errorf("%+v, want %s", v, tc.want)
			}
		})
	}
	for name, bend := range map[string]func(*Evidence){
		"an unpaid order that expired": func(e *Evidence) {
			row(e, eve).Status, row(e, eve).ClosedAt = Expired, row(e, eve).ExpiresAt
		},
		"a refund that is due, after an outage": func(e *Evidence) { pays(e, eve).Answer = no("order_closed") },
		"429 to a paid order":                   func(e *Evidence) { pays(e, ann).Answer = Answer{Status: 429, Code: "rate_limited"} },
		"refused while a lost payment was under way": func(e *Evidence) {
			*pays(e, cyd) = Closing{OrderID: cyd, Buyer: "cyd", Sent: e.Closings[5].Sent, Latency: time.Minute, Answer: no("sold_out")}
			e.Closings[5].Latency = time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := payday().end()
			bend(&e)
			if v := Judge(e); len(v.Violations)+len(v.Gaps) > 0 {
				t.Errorf("%+v", v)
			}
		})
	}
}
