package app

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// A buyer's and an operator's calls, as API.md has them.
func TestContract(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		n := start(t, s, nil)
		if a := n.put("S", 3, 2, 900); a.status != 201 {
			t.Fatalf("new sale: %d %s", a.status, a.body)
		}
		if a := n.put("S", 3, 2, 900); a.status != 200 {
			t.Fatalf("same sale: %d %s", a.status, a.body)
		}
		ann, bob := n.token("ann", false), n.token("bob", false)

		var order map[string]any
		made := n.send("POST", "/v1/orders", ann, `{"sku":"S","quantity":2}`, "Idempotency-Key: k1")
		made.into(t, &order)
		id := fmt.Sprint(order["id"])
		if made.status != 201 || made.header.Get("Location") != "/v1/orders/"+id || order["status"] != "pending_payment" || order["amount"] != 3998.0 {
			t.Fatalf("order: %d %s", made.status, made.body)
		}
		again := n.send("POST", "/v1/orders", ann, `{"sku":"S","quantity":2}`, "Idempotency-Key: k1")
		if again.status != 201 || again.body != made.body || again.header.Get("Idempotent-Replayed") != "true" {
			t.Fatalf("replay: %d %s", again.status, again.body)
		}

		late := n.send("POST", "/v1/orders", bob, `{"sku":"S","quantity":1}`, "Prefer: respond-async", "Idempotency-Key: k1")
		where := late.header.Get("Location")
		if late.status != 202 || where == "" {
			t.Fatalf("async: %d %s", late.status, late.body)
		}
		eventually(t, "the async order is durable", func() bool {
			return strings.Contains(n.send("GET", where, bob, "").body, `"pending_payment"`)
		})
		late.into(t, &order)
		bobs := fmt.Sprint(order["id"])

		for _, c := range []struct {
			name, method, path, token, body string
			status                          int
			code                            string
		}{
			{"sold out", "POST", "/v1/orders", n.token("eve", false), `{"sku":"S","quantity":1}`, 409, "sold_out"},
			{"limit", "POST", "/v1/orders", ann, `{"sku":"S","quantity":1}`, 409, "buyer_limit"},
			{"unknown sale", "POST", "/v1/orders", ann, `{"sku":"T","quantity":1}`, 404, "not_found"},
			{"own order", "GET", "/v1/orders/" + id, ann, "", 200, ""},
			{"another's order", "GET", "/v1/orders/" + id, bob, "", 404, "not_found"},
			{"pay another's", "POST", "/v1/orders/" + id + "/pay", bob, `{"payment_ref":"r"}`, 404, "not_found"},
			{"cancel another's", "POST", "/v1/orders/" + id + "/cancel", bob, "", 404, "not_found"},
			{"pay", "POST", "/v1/orders/" + id + "/pay", ann, `{"payment_ref":"r"}`, 200, ""},
			{"pay again", "POST", "/v1/orders/" + id + "/pay", ann, `{"payment_ref":"r"}`, 200, ""},
			{"pay with another ref", "POST", "/v1/orders/" + id + "/pay", ann, `{"payment_ref":"q"}`, 409, "already_paid"},
			{"cancel a paid one", "POST", "/v1/orders/" + id + "/cancel", ann, "", 409, "already_paid"},
			{"cancel", "POST", "/v1/orders/" + bobs + "/cancel", bob, "", 200, ""},
			{"cancel again", "POST", "/v1/orders/" + bobs + "/cancel", bob, "", 200, ""},
			{"pay a cancelled one", "POST", "/v1/orders/" + bobs + "/pay", bob, `{"payment_ref":"r"}`, 409, "order_closed"},
			{"list", "GET", "/v1/orders?limit=1", ann, "", 200, ""},
			{"sales", "GET", "/v1/sales", "", "", 200, ""},
			{"sale", "GET", "/v1/sales/S", "", "", 200, ""},
			{"no sale", "GET", "/v1/sales/T", "", "", 404, "not_found"},
			{"audit without token", "GET", "/v1/admin/sales/S/audit", "", "", 401, "unauthorized"},
			{"audit as buyer", "GET", "/v1/admin/sales/S/audit", ann, "", 403, "forbidden"},
			{"audit", "GET", "/v1/admin/sales/S/audit", n.token("op", true), "", 200, ""},
			{"rebuild", "POST", "/v1/admin/sales/S/rebuild", n.token("op", true), "", 200, ""},
			{"rows", "GET", "/v1/admin/sales/S/orders", n.token("op", true), "", 200, ""},
			{"refunds without token", "GET", "/v1/admin/refunds", "", "", 401, "unauthorized"},
			{"refunds as buyer", "GET", "/v1/admin/refunds", ann, "", 403, "forbidden"},
			{"refunds", "GET", "/v1/admin/refunds", n.token("op", true), "", 200, ""},
			{"no route", "GET", "/v2", ann, "", 404, "not_found"},
			{"a slash too many", "POST", "/v1/orders/", ann, `{"sku":"S","quantity":1}`, 404, "not_found"},
			{"no method", "DELETE", "/v1/orders", ann, "", 405, "method_not_allowed"},
			{"livez", "GET", "/livez", "", "", 200, ""},
			{"readyz", "GET", "/readyz", "", "", 200, ""},
			{"metrics", "GET", "/metrics", "", "", 200, ""},
		} {
			if a := n.send(c.method, c.path, c.token, c.body); a.status != c.status || a.code() != c.code {
				t.Errorf("%s: %d %s, want %d %s", c.name, a.status, a.body, c.status, c.code)
			}
		}

		var audit struct {
			Total, Available, Held, Sold, Paid, Pending, Restoring, Oversold, Drift int
			Balanced                                                                bool
		}
		eventually(t, "the cancelled unit is back", func() bool {
			n.send("GET", "/v1/admin/sales/S/audit", n.token("op", true), "").into(t, &audit)
			return audit.Restoring == 0 && audit.Held == 0
		})
		if audit.Total != 3 || audit.Available != 1 || audit.Paid != 2 || audit.Sold != 2 || !audit.Balanced {
			t.Errorf("audit: %+v", audit)
		}
		if a := n.put("S", 1, 2, 900); a.status != 409 || a.code() != "below_sold" {
			t.Errorf("cut under what is sold: %d %s", a.status, a.body)
		}
		if a := n.put("S", 10, 2, 900); a.status != 200 || !strings.Contains(a.body, `"available":8`) {
			t.Errorf("restock: %d %s", a.status, a.body)
		}
	})
}

// Whatever is malformed is refused with its field named, and nothing else happens.
func TestBadInput(t *testing.T) {
	s := servertest.Open(t, servers.KindEmbedded)
	n := start(t, s, nil)
	if a := n.put("S", 10, 2, 900); a.status != 201 {
		t.Fatal(a.body)
	}
	ann := n.token("ann", false)
	for _, c := range []struct {
		name, body, field string
		header            []string
	}{
		{name: "empty", body: " ", field: "body"},
		{name: "malformed", body: `{"sku":`, field: "body"},
		{name: "not an object", body: `[1]`, field: "body"},
		{name: "trailing", body: `{"sku":"S","quantity":1} {}`, field: "body"},
		{name: "unknown field", body: `{"sku":"S","quantity":1,"price":1}`, field: "price"},
		{name: "wrong type", body: `{"sku":"S","quantity":"1"}`, field: "quantity"},
		{name: "sku of wrong type", body: `{"sku":7,"quantity":1}`, field: "sku"},
		{name: "fraction", body: `{"sku":"S","quantity":1.5}`, field: "quantity"},
		{name: "zero", body: `{"sku":"S","quantity":0}`, field: "quantity"},
		{name: "missing quantity", body: `{"sku":"S"}`, field: "quantity"},
		{name: "negative", body: `{"sku":"S","quantity":-1}`, field: "quantity"},
		{name: "overflow", body: `{"sku":"S","quantity":99999999999999999999}`, field: "quantity"},
		{name: "over the cap", body: `{"sku":"S","quantity":11}`, field: "quantity"},
		{name: "bad sku", body: `{"sku":"S S","quantity":1}`, field: "sku"},
		{name: "sku that would leave its slot", body: `{"sku":"}{","quantity":1}`, field: "sku"},
		{name: "huge", body: `{"sku":"` + strings.Repeat("S", 5000) + `","quantity":1}`, field: "body"},
		{name: "bad key", body: `{"sku":"S","quantity":1}`, field: "Idempotency-Key", header: []string{"Idempotency-Key: a b"}},
		{name: "long key", body: `{"sku":"S","quantity":1}`, field: "Idempotency-Key", header: []string{"Idempotency-Key: " + strings.Repeat("k", 129)}},
	} {
		a := n.send("POST", "/v1/orders", ann, c.body, c.header...)
		if a.status != 400 || a.code() != "invalid_request" || !strings.Contains(a.body, `"field":"`+c.field+`"`) {
			t.Errorf("%s: %d %s, want 400 naming %s", c.name, a.status, a.body, c.field)
		}
	}
	if a := n.send("POST", "/v1/orders", ann, `{"sku":"S","quantity":1}`, "Content-Type: text/plain"); a.status != 415 || a.code() != "unsupported_media_type" {
		t.Errorf("text/plain: %d %s", a.status, a.body)
	}
	for name, token := range map[string]string{
		"none":    "",
		"garbage": "x.y.z",
		"alg none": "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0." +
			"eyJzdWIiOiJhbm4iLCJleHAiOjk5OTk5OTk5OTl9.",
		"forged": ann[:len(ann)-2] + "AA",
	} {
		if a := n.send("POST", "/v1/orders", token, `{"sku":"S","quantity":1}`); a.status != 401 || a.code() != "unauthorized" {
			t.Errorf("token %s: %d %s", name, a.status, a.body)
		}
	}
	bad := n.send("PUT", "/v1/admin/sales/T", n.token("op", true), `{"name":"","price":-1,"currency":"euro","total":-5,"reserve_on":"later"}`)
	for _, field := range []string{"name", "price", "currency", "total", "per_buyer_limit", "opens_at", "closes_at", "payment_window_s", "reserve_on"} {
		if bad.status != 400 || !strings.Contains(bad.body, `"field":"`+field+`"`) {
			t.Errorf("bad sale does not name %s: %d %s", field, bad.status, bad.body)
		}
	}
	if a := n.send("PUT", "/v1/admin/sales/T", n.token("op", true), `{"reserve_on":""}`); a.status != 400 || !strings.Contains(a.body, `"field":"reserve_on"`) {
		t.Errorf("units taken on nothing: %d %s", a.status, a.body)
	}
	if a := n.send("GET", "/v1/admin/sales/S/audit", n.token("op", true), ""); !strings.Contains(a.body, `"available":10`) {
		t.Errorf("bad input took units: %s", a.body)
	}
}

// A body that trickles in is cut off, and the connection's goroutine with it.
func TestSlowBody(t *testing.T) {
	n := start(t, servertest.Open(t, servers.KindEmbedded), nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "POST /v1/orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", n.token("ann", false))
	_ = conn.SetReadDeadline(time.Now().Add(15 * time.Second))
	status := make([]byte, 12)
	if _, err := conn.Read(status); err != nil || string(status) != "HTTP/1.1 400" {
		t.Errorf("slow body: %q, %v", status, err)
	}
}

// The limiter's refusal has its headers, and neither harms other buyers nor
// takes a unit.
func TestRateLimited(t *testing.T) {
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) {
		c.LimitBuyer = limit(t, "1/m:2")
	})
	n.put("S", 10, 9, 900)
	ann := n.token("ann", false)
	var last answer
	for range 3 {
		last = n.send("POST", "/v1/orders", ann, `{"sku":"S","quantity":1}`)
	}
	if last.status != 429 || last.code() != "rate_limited" || last.header.Get("Retry-After") == "" ||
		last.header.Get("RateLimit") == "" || last.header.Get("RateLimit-Policy") == "" {
		t.Errorf("third order within a minute: %d %v %s", last.status, last.header, last.body)
	}
	if a := n.send("POST", "/v1/orders", n.token("bob", false), `{"sku":"S","quantity":1}`); a.status != http.StatusCreated {
		t.Errorf("another buyer: %d %s", a.status, a.body)
	}
}
