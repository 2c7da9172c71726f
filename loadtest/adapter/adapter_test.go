package adapter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/adapter"
	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/servers/servertest/check"
)

// fake is a shop that answers with its fields.
type fake struct {
	err   error // error of every call
	panic any   // value with which Order panics
	order adapter.Order
	rows  []judge.Row
	reads int // number of calls of Rows
	left  int
	blind error // error of Left
	calls []string
}

func (f *fake) did(format string, args ...any) error {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	return f.err
}

func (f *fake) About() adapter.About {
	return adapter.About{Name: "fake", Lacks: []judge.Feature{judge.Paying, judge.Keys}}
}

func (f *fake) Open(_ context.Context, sku string, units int, price int64, currency string) error {
	return f.did("open %s %d %d %s", sku, units, price, currency)
}

func (f *fake) Order(_ context.Context, sku, buyer, key string, units int) (adapter.Order, error) {
	if f.panic != nil {
		panic(f.panic)
	}
	return f.order, f.did("order %s %s %s %d", sku, buyer, key, units)
}

func (f *fake) Rows(context.Context, string) ([]judge.Row, error) {
	f.reads++
	return f.rows, f.err
}

// full is a fake with all optional methods.
type full struct{ *fake }

func (f full) Limit(_ context.Context, sku string, n int) error { return f.did("limit %s %d", sku, n) }
func (f full) Left(context.Context, string) (int, error)        { return f.left, f.blind }
func (f full) Cancel(_ context.Context, sku, id string) error   { return f.did("cancel %s %s", sku, id) }
func (f full) Pay(_ context.Context, sku, id, ref string) error {
	return f.did("pay %s %s %s", sku, id, ref)
}

// opened returns the handler of a shop with an open sale of 3 units, and an order of ann.
func opened(t *testing.T, s adapter.Shop, f *fake) http.Handler {
	t.Helper()
	h := adapter.Handler(s)
	f.order.ID = "o/1"
	for _, call := range []string{
		`PUT /v1/admin/sales/S {"name":"N","price":5,"currency":"EUR","total":3,"per_buyer_limit":2,"available":9,"opens_at":"2026-01-01T00:00:00Z"}`,
		`POST /v1/orders {"sku":"S","quantity":1}`,
	} {
		if status, _, body := send(t, h, call, "ann"); status/100 != 2 {
			t.Fatalf("call %s: got %d %s, want success", call, status, body)
		}
	}
	return h
}

// send sends a call such as "GET /path body" as a buyer, or without a token. It fails the test if
// the load test finds a fault in the form of the answer.
func send(t *testing.T, h http.Handler, call, buyer string) (int, http.Header, []byte) {
	t.Helper()
	method, rest, _ := strings.Cut(call, " ")
	path, body, _ := strings.Cut(rest, " ")
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if buyer != "" {
		token, err := adapter.Token(buyer, false)
		check.Must(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	ordering := method == http.MethodPost || w.Code >= 400
	if a := client.Decode(w.Code, w.Header(), w.Body.Bytes()); ordering && a.Fault != "" {
		t.Errorf("call %s: got an answer with %s, want the form of the contract: %d %v %s", call, a.Fault, w.Code, w.Header(), w.Body)
	}
	return w.Code, w.Header(), w.Body.Bytes()
}

// Each call reaches the shop, and each answer has the status and the body of the contract.
func TestCalls(t *testing.T) {
	for _, c := range []struct {
		name, call, buyer string
		err               error
		status            int
		want              string // part of the body
	}{
		{"sale", "GET /v1/sales/S", "", nil, 200, `"sku":"S","name":"N","price":5,"currency":"EUR","total":3,"per_buyer_limit":2,"reserve_on":"","state":"open","available":7`},
		{"sale before PUT", "GET /v1/sales/T", "", nil, 404, "not_found"},
		{"rows before PUT", "GET /v1/admin/sales/T/orders", "ann", nil, 404, "not_found"},
		{"audit before PUT", "GET /v1/admin/sales/T/audit", "ann", nil, 404, "not_found"},
		{"no such call", "GET /v1/admin/changes", "ann", nil, 404, "not_found"},
		{"order", `POST /v1/orders {"sku":"S","quantity":2}`, "ann", nil, 201, `"id":"o/1","sku":"S","buyer":"ann","quantity":2,"status":"pending_payment"`},
		{"order of another SKU", `POST /v1/orders {"sku":"T","quantity":2}`, "ann", nil, 404, "not_found"},
		{"order without a token", `POST /v1/orders {"sku":"S","quantity":2}`, "", nil, 401, "unauthorized"},
		{"order with bad JSON", `POST /v1/orders {"sku":`, "ann", nil, 400, "invalid_request"},
		{"order of half a unit", `POST /v1/orders {"sku":"S","quantity":0.5}`, "ann", nil, 400, "invalid_request"},
		{"order of no units", `POST /v1/orders {"sku":"S","quantity":0}`, "ann", nil, 400, "invalid_request"},
		{"order of nothing", `POST /v1/orders`, "ann", nil, 400, "invalid_request"},
		{"order without a SKU", `POST /v1/orders {"quantity":2}`, "ann", nil, 400, "invalid_request"},
		{"order with a field of the wrong type", `POST /v1/orders {"sku":"S","quantity":2,"name":3}`, "ann", nil, 400, "invalid_request"},
		{"order of 5 KB", `POST /v1/orders {"name":"` + strings.Repeat("x", 5000) + `","sku":"S","quantity":2}`, "ann", nil, 400, "invalid_request"},
		{"sold out", `POST /v1/orders {"sku":"S","quantity":2}`, "ann", fmt.Errorf("cart: %w", adapter.ErrSoldOut), 409, "sold_out"},
		{"limit", `POST /v1/orders {"sku":"S","quantity":2}`, "ann", adapter.ErrLimit, 409, "buyer_limit"},
		{"shop fails", `POST /v1/orders {"sku":"S","quantity":2}`, "ann", errors.New("deadlock"), 503, "deadlock"},
		{"pay", `POST /v1/orders/o%2F1/pay {"payment_ref":"r"}`, "ann", nil, 200, `"id":"o/1","sku":"S","buyer":"ann","quantity":1,"status":"paid"`},
		{"pay a closed order", `POST /v1/orders/o%2F1/pay {"payment_ref":"r"}`, "ann", adapter.ErrClosed, 409, "order_closed"},
		{"pay another buyer's order", `POST /v1/orders/o%2F1/pay {"payment_ref":"r"}`, "bob", nil, 404, "not_found"},
		{"pay an unknown order", `POST /v1/orders/o2/pay {"payment_ref":"r"}`, "ann", nil, 404, "not_found"},
		{"cancel", "POST /v1/orders/o%2F1/cancel", "ann", nil, 200, `"status":"cancelled"`},
		{"cancel a paid order", "POST /v1/orders/o%2F1/cancel", "ann", adapter.ErrPaid, 409, "already_paid"},
		{"cancel without a token", "POST /v1/orders/o%2F1/cancel", "", nil, 401, "unauthorized"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{left: 7}
			h := opened(t, full{f}, f)
			f.err = c.err
			status, header, body := send(t, h, c.call, c.buyer)
			if status != c.status || !strings.Contains(string(body), c.want) {
				t.Errorf("call %s: got %d %s, want %d and %s", c.call, status, body, c.status, c.want)
			}
			if to := header.Get("Location"); status == 201 && to != "/v1/orders/o%2F1" {
				t.Errorf("call %s: got Location %q", c.call, to)
			}
		})
	}
}

// The shop receives the values of the requests, and its result is in the answer.
func TestArguments(t *testing.T) {
	f := &fake{}
	h := opened(t, full{f}, f)
	f.order = adapter.Order{ID: "o2", Status: judge.Paid, Replayed: true, ExpiresAt: time.Unix(1e9, 0).UTC()}
	_, header, body := send(t, h, `POST /v1/orders {"sku":"S","quantity":2}`, "bob")
	if a := client.Decode(201, header, body); !a.Replayed || a.Order.Status != judge.Paid || !a.Order.ExpiresAt.Equal(f.order.ExpiresAt) {
		t.Errorf("order: got %+v, want the shop's %+v", a, f.order)
	}
	send(t, h, `POST /v1/orders/o2/pay {"payment_ref":"r"}`, "bob")
	send(t, h, "POST /v1/orders/o2/cancel", "bob")
	want := []string{"open S 3 5 EUR", "limit S 2", "order S ann k 1", "order S bob k 2", "pay S o2 r", "cancel S o2"}
	if !slices.Equal(f.calls, want) {
		t.Errorf("calls of the shop: got %q, want %q", f.calls, want)
	}
}

// A shop without optional methods lacks these features, and their calls do not exist.
func TestLacks(t *testing.T) {
	for _, c := range []struct {
		shop   func(*fake) adapter.Shop
		want   string
		status int // status of the optional calls
	}{
		{func(f *fake) adapter.Shop { return f }, "audit, cancel, cancel-or-pay, feed, keys, limit, pay", 404},
		{func(f *fake) adapter.Shop {
			return struct {
				adapter.Canceller
				*fake
			}{full{f}, f}
		}, "audit, cancel-or-pay, feed, keys, limit, pay", 0},
		{func(f *fake) adapter.Shop { return full{f} }, "feed, keys, pay", 200},
	} {
		f := &fake{}
		h := opened(t, c.shop(f), f)
		_, _, body := send(t, h, "GET /v1/about", "")
		var a judge.About
		check.Must(t, json.Unmarshal(body, &a))
		if got := judge.JoinFeatures(a.Lacks); got != c.want || a.Name != "fake" {
			t.Errorf("about: got %s, want lacks %s", body, c.want)
		}
		for _, call := range []string{"GET /v1/admin/sales/S/audit", "POST /v1/orders/o%2F1/cancel", `POST /v1/orders/o%2F1/pay {"payment_ref":"r"}`} {
			if status, _, body := send(t, h, call, "ann"); c.status != 0 && status != c.status {
				t.Errorf("call %s of a shop that lacks %s: got %d %s, want %d", call, c.want, status, body, c.status)
			}
		}
		if _, _, body := send(t, h, "GET /v1/sales/S", ""); strings.Contains(string(body), `"available":null`) == (c.status == 200) {
			t.Errorf("sale of a shop that lacks %s: got %s", c.want, body)
		}
	}
}

func row(id, status string, quantity int) judge.Row {
	return judge.Row{Order: judge.Order{ID: id, Buyer: "ann", Status: status, Quantity: quantity}, Key: "k-" + id}
}

// The load test reads all rows, in the order of their ids, with one read of the shop for each
// 5,000 rows.
func TestRows(t *testing.T) {
	for n, reads := range map[int]int{0: 1, 1: 1, 5000: 1, 5001: 2, 12_000: 3} {
		f := &fake{}
		server := httptest.NewServer(opened(t, f, f))
		t.Cleanup(server.Close)
		for i := range n {
			f.rows = append(f.rows, row(fmt.Sprintf("%05d", n-i), "", 1))
		}
		operator := client.NewOperator(client.New(server.URL, "S", http.DefaultClient), "")
		rows, err := operator.Rows(check.Context(t))
		check.Must(t, err)
		if len(rows) != n || f.reads != reads {
			t.Errorf("rows: got %d with %d reads, want %d with %d", len(rows), f.reads, n, reads)
		}
		for i, r := range rows {
			if id := fmt.Sprintf("%05d", i+1); r.ID != id || r.Key != "k-"+id || r.Status != judge.Pending || r.SKU != "S" {
				t.Fatalf("row %d: got %+v, want id %s, pending, of S", i, r, id)
			}
		}
		if n > 0 && f.rows[0].Status != "" {
			t.Error("rows: the handler has changed the shop's slice")
		}
	}
}

// A row that the judge would not count is an error, because units could be oversold unseen.
func TestUselessRows(t *testing.T) {
	for _, r := range []judge.Row{row("a", "PaymentSettled", 1), row("", judge.Paid, 1), row("a", judge.Paid, 0)} {
		f := &fake{}
		h := opened(t, full{f}, f)
		f.rows = []judge.Row{r, row("b", judge.Paid, 1)}
		for _, path := range []string{"orders", "audit"} {
			if status, _, body := send(t, h, "GET /v1/admin/sales/S/"+path, ""); status != 503 {
				t.Errorf("%s with row %+v: got %d %s, want 503", path, r, status, body)
			}
		}
		f.order.ID = ""
		if status, _, body := send(t, h, `POST /v1/orders {"sku":"S","quantity":2}`, "ann"); status != 503 {
			t.Errorf("order without an id: got %d %s, want 503", status, body)
		}
	}
}

// The audit counts the units that rows hold, and compares them with the shop's own number.
func TestAudit(t *testing.T) {
	for _, c := range []struct {
		reserveOn string
		left      int
		want      judge.Audit
	}{
		{judge.OnOrder, 0, judge.Audit{SKU: "S", Total: 3, Sold: 4, Pending: 3, Paid: 1, Oversold: 1, Drift: -1}},
		{judge.OnOrder, -1, judge.Audit{SKU: "S", Total: 3, Available: -1, Sold: 4, Pending: 3, Paid: 1, Oversold: 1}},
		{judge.OnPayment, 1, judge.Audit{SKU: "S", Total: 3, Available: 1, Sold: 1, Paid: 1, Drift: 1}},
		{judge.OnPayment, 2, judge.Audit{SKU: "S", Total: 3, Available: 2, Sold: 1, Paid: 1, Balanced: true}},
	} {
		f := &fake{left: c.left, rows: []judge.Row{row("a", "", 3), row("b", judge.Paid, 1), row("c", judge.Cancelled, 9)}}
		h := adapter.Handler(full{f})
		send(t, h, `PUT /v1/admin/sales/S {"total":3,"reserve_on":"`+c.reserveOn+`"}`, "")
		_, _, body := send(t, h, "GET /v1/admin/sales/S/audit", "")
		var got judge.Audit
		check.Must(t, json.Unmarshal(body, &got))
		if got != c.want {
			t.Errorf("audit with units on %s: got %+v, want %+v", c.reserveOn, got, c.want)
		}
	}
}

// An audit or a sale whose numbers cannot be read is an error.
func TestUnread(t *testing.T) {
	for call, fails := range map[string]*fake{
		"GET /v1/admin/sales/S/audit":  {blind: errors.New("no stock level")},
		"GET /v1/sales/S":              {blind: errors.New("no stock level")},
		"GET /v1/admin/sales/S/audit ": {err: errors.New("no orders")},
		"GET /v1/admin/sales/S/orders": {err: errors.New("no orders")},
	} {
		f := &fake{}
		h := opened(t, full{f}, f)
		f.err, f.blind = fails.err, fails.blind
		if status, _, body := send(t, h, call, ""); status != 503 {
			t.Errorf("call %s with errors %v, %v: got %d %s, want 503", call, f.err, f.blind, status, body)
		}
	}
}

// After an error of Open, the sale is not open.
func TestOpenFails(t *testing.T) {
	f := &fake{err: errors.New("no such channel")}
	h := adapter.Handler(f)
	if status, _, body := send(t, h, `PUT /v1/admin/sales/S {"total":3}`, ""); status != 503 {
		t.Errorf("open: got %d %s, want 503", status, body)
	}
	if status, _, body := send(t, h, "GET /v1/sales/S", ""); status != 404 {
		t.Errorf("sale: got %d %s, want 404", status, body)
	}
}

// Each different error of the shop is logged once, with the stack of a panic, up to 20 errors.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	f := &fake{}
	h := opened(t, f, f)
	for n := range 2 * 30 {
		f.panic = fmt.Sprintf("bug-%02d", n/2)
		status, _, body := send(t, h, `POST /v1/orders {"sku":"S","quantity":1}`, "ann")
		if status != 503 || !strings.Contains(string(body), f.panic.(string)) {
			t.Errorf("order with a panic: got %d %s, want 503 with its text", status, body)
		}
	}
	text, err := io.ReadAll(&out)
	check.Must(t, err)
	lines := strings.Count(string(text), "adapter: call the shop")
	if lines != 20 || strings.Count(string(text), "bug-19") != 1 || !strings.Contains(string(text), "adapter_test.go") {
		t.Errorf("log: got %d lines, want 20 with stacks:\n%s", lines, text)
	}
}
