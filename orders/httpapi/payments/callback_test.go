package payments_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/httpapi/payments"
)

// Each answer of the shop leads to an answer to the provider, and the payment is kept, captured or
// returned. A repeated report has the same answer.
func TestReports(t *testing.T) {
	for _, c := range []struct {
		event  string
		status int
		code   string
		want   int
		done   string // with the payment
	}{
		{"captured", 200, "", 204, ""},
		{"captured", 409, "already_paid", 204, "returned"},
		{"captured", 409, "order_closed", 204, ""},
		{"captured", 409, "amount_mismatch", 204, ""},
		{"captured", 409, "sold_out", 204, "returned"},
		{"authorized", 200, "", 204, "captured"},
		{"authorized", 409, "sold_out", 204, "returned"},
		{"authorized", 409, "closed", 204, "returned"},
		{"authorized", 409, "buyer_limit", 204, "returned"},
		{"authorized", 409, "not_open", 204, "returned"},
		{"authorized", 409, "already_paid", 204, "returned"},
		{"authorized", 409, "order_closed", 204, "returned"},
		{"authorized", 409, "amount_mismatch", 204, "returned"},
		{"captured", 409, "in_progress", 503, ""},
		{"authorized", 409, "in_progress", 503, ""},
		{"captured", 409, "a_code_of_a_later_version", 503, ""},
		{"captured", 409, "", 503, ""},
		{"captured", 503, "unavailable", 503, ""},
		{"authorized", 500, "", 503, ""},
		{"captured", 404, "not_found", 503, ""},
		{"captured", 401, "unauthorized", 503, ""},
	} {
		s, b := &shop{status: c.status, code: c.code}, &bank{}
		callback, stop := open(s, b)
		for _, time := range []string{"first", "second"} {
			if got := report(callback, event(c.event)); got != c.want || b.done != c.done {
				t.Errorf("%s report of a payment %s, which the shop answers with %d %s: got %d and payment %q, want %d and %q",
					time, c.event, c.status, c.code, got, b.done, c.want, c.done)
			}
		}
		stop()
		if got := report(callback, event(c.event)); b.done != "returned" && got != 503 {
			t.Errorf("report of a payment %s without an answer of the shop: got %d, want 503", c.event, got)
		}
	}
}

// A report is repeated if the provider's API fails.
func TestProviderFails(t *testing.T) {
	s, b := &shop{status: 200}, &bank{err: errors.New("provider is down")}
	callback, stop := open(s, b)
	defer stop()
	if got := report(callback, event("authorized")); got != 503 {
		t.Errorf("report whose payment cannot be captured: got %d, want 503", got)
	}
	s.status, s.code = 409, "sold_out"
	if got := report(callback, event("authorized")); got != 503 {
		t.Errorf("report whose payment cannot be returned: got %d, want 503", got)
	}
	b.err = nil
	if got := report(callback, event("authorized")); got != 204 || b.done != "returned" {
		t.Errorf("report when the provider works again: got %d and payment %q, want 204 and returned", got, b.done)
	}
}

// A returned payment does not pay the order when its report arrives again, even if units are left
// by then.
func TestReturnedPaymentDoesNotPay(t *testing.T) {
	s, b := &shop{status: 409, code: "sold_out"}, &bank{}
	callback, stop := open(s, b)
	defer stop()
	report(callback, event("authorized"))
	s.status, s.asked = 200, ""
	if got := report(callback, event("authorized")); got != 204 || s.asked != "" {
		t.Errorf("repeated report of a returned payment: got %d and request %q to the shop, want 204 and none", got, s.asked)
	}
}

// Reports are settled one after the other. Otherwise one report could return a payment while
// another report pays the order with it.
func TestReportsDoNotOverlap(t *testing.T) {
	s := &shop{status: 200}
	callback, stop := open(s, &bank{})
	defer stop()
	var reports sync.WaitGroup
	for range 50 {
		reports.Go(func() { report(callback, event("captured")) })
	}
	reports.Wait()
	if n := s.overlaps.Load(); n > 0 {
		t.Errorf("reports at the same time: got %d requests to the shop during another one, want none", n)
	}
}

// The shop is not called for a report without a valid signature, or with a malformed body. Events
// that are not about a payment of the buyer are ignored.
func TestBadReports(t *testing.T) {
	s := &shop{status: 200}
	callback, stop := open(s, &bank{})
	defer stop()
	good := event("captured")
	var decoded map[string]any
	check.Must(t, json.Unmarshal([]byte(good), &decoded))
	encoded, err := json.Marshal(decoded)
	check.Must(t, err)
	at := func(offset time.Duration) func(http.Header) {
		return func(h http.Header) { sign(h, good, time.Now().Add(offset)) }
	}
	for _, c := range []struct {
		name, body string
		change     func(http.Header)
		want       int
	}{
		{"no signature", good, func(h http.Header) { h.Del(payments.SignatureHeader) }, 401},
		{"an empty signature", good, func(h http.Header) { h.Set(payments.SignatureHeader, "") }, 401},
		{"a doubled signature", good, func(h http.Header) { h.Add(payments.SignatureHeader, h.Get(payments.SignatureHeader)) }, 401},
		{"a second, forged signature", good, func(h http.Header) { h.Add(payments.SignatureHeader, "00") }, 401},
		{"a doubled timestamp", good, func(h http.Header) { h.Add(payments.TimestampHeader, h.Get(payments.TimestampHeader)) }, 401},
		{"another timestamp than the signed one", good, func(h http.Header) {
			h.Set(payments.TimestampHeader, strconv.FormatInt(time.Now().Unix()-2, 10))
		}, 401},
		{"no timestamp", good, func(h http.Header) { h.Del(payments.TimestampHeader) }, 401},
		{"an old timestamp", good, at(-6 * time.Minute), 401},
		{"a timestamp in the future", good, at(6 * time.Minute), 401},
		{"an upper-case signature", good, func(h http.Header) { h.Set(payments.SignatureHeader, strings.ToUpper(h.Get(payments.SignatureHeader))) }, 401},
		{"a re-encoded body", string(encoded), at(0), 401},
		{"a body with a line end", good + "\n", at(0), 401},
		{"an amount 1e3", strings.Replace(good, "12900", "1e3", 1), nil, 400},
		{"an amount in quotes", strings.Replace(good, "12900", `"100"`, 1), nil, 400},
		{"a negative amount", strings.Replace(good, "12900", "-1", 1), nil, 400},
		{"a fractional amount", strings.Replace(good, "12900", "129.00", 1), nil, 400},
		{"an amount beyond 64 bits", strings.Replace(good, "12900", "9223372036854775808", 1), nil, 400},
		{"an amount null", strings.Replace(good, "12900", "null", 1), nil, 400},
		{"no amount", strings.Replace(good, `"amount":12900,`, "", 1), nil, 400},
		{"a currency in lower case", strings.Replace(good, "EUR", "eur", 1), nil, 400},
		{"no currency", strings.Replace(good, `,"currency":"EUR"`, "", 1), nil, 400},
		{"no reference", strings.Replace(good, `"p-1"`, `""`, 1), nil, 400},
		{"an order that is a path", strings.Replace(good, order, "../admin", 1), nil, 400},
		{"a long body", good + strings.Repeat(" ", 64<<10), nil, 400},
		{"no JSON", "event=captured", nil, 400},
		{"trailing data", good + good, nil, 400},
		{"another event", event("refunded"), nil, 204},
	} {
		var change []func(http.Header)
		if c.change != nil {
			change = append(change, c.change)
		}
		if got := report(callback, c.body, change...); got != c.want || s.asked != "" {
			t.Errorf("report with %s: got %d and request %q to the shop, want %d and none", c.name, got, s.asked, c.want)
		}
		s.asked = ""
	}
	for _, offset := range []time.Duration{-4 * time.Minute, 4 * time.Minute} {
		if got := report(callback, good, at(offset)); got != 204 || s.asked == "" {
			t.Errorf("report signed at %v from now: got %d and request %q to the shop, want 204 and one", offset, got, s.asked)
		}
	}
}
