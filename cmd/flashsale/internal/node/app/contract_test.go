package app

import (
	"fmt"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// The calls of buyers and operators are answered as in openapi.yaml.
func TestContract(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		n := start(t, s, nil)
		n.put("S", 3, 2, 900).want(201)
		n.put("S", 3, 2, 900).want(200)
		ann, bob := n.token("ann", false), n.token("bob", false)

		var order map[string]any
		made := n.send("POST", "/v1/orders", ann, `{"sku":"S","quantity":2}`, "Idempotency-Key: k1").known()
		made.into(t, &order)
		id := fmt.Sprint(order["id"])
		if made.status != 201 || made.where() != "/v1/orders/"+id || order["status"] != "pending_payment" || order["amount"] != 3998.0 {
			t.Fatalf("new order: got %d %s, want 201, its Location and a pending order of 3998 cents", made.status, made.body)
		}
		n.send("POST", "/v1/orders", ann, `{"sku":"S","quantity":2}`, "Idempotency-Key: k1").replays(made)

		late := n.orderBy("S", "bob", "k1", "Prefer: respond-async").want(202)
		bobs := late.id()
		check.Eventually(t, "the async order is durable", func() bool {
			return n.send("GET", late.where(), bob, "").known().has(`"pending_payment"`)
		})

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
			{"pay another amount", "POST", "/v1/orders/" + id + "/pay", ann, `{"payment_ref":"less","amount":1}`, 409, "amount_mismatch"},
			{"pay", "POST", "/v1/orders/" + id + "/pay", ann, `{"payment_ref":"r","amount":3998,"currency":"EUR"}`, 200, ""},
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
			{"any order without token", "GET", "/v1/admin/orders/" + id, "", "", 401, "unauthorized"},
			{"any order as its buyer", "GET", "/v1/admin/orders/" + id, ann, "", 403, "forbidden"},
			{"any order", "GET", "/v1/admin/orders/" + id, n.token("op", true), "", 200, ""},
			{"any order that is not", "GET", "/v1/admin/orders/x", n.token("op", true), "", 404, "not_found"},
			{"a buyer's orders as the buyer", "GET", "/v1/admin/orders?buyer=ann", ann, "", 403, "forbidden"},
			{"a buyer's orders", "GET", "/v1/admin/orders?buyer=ann", n.token("op", true), "", 200, ""},
			{"no buyer's orders", "GET", "/v1/admin/orders", n.token("op", true), "", 400, "invalid_request"},
			{"close as a buyer", "POST", "/v1/admin/sales/S/close", ann, "", 403, "forbidden"},
			{"close what is not", "POST", "/v1/admin/sales/T/close", n.token("op", true), "", 404, "not_found"},
			{"close by GET", "GET", "/v1/admin/sales/S/close", n.token("op", true), "", 405, "method_not_allowed"},
			{"refunds without token", "GET", "/v1/admin/refunds", "", "", 401, "unauthorized"},
			{"refunds as buyer", "GET", "/v1/admin/refunds", ann, "", 403, "forbidden"},
			{"refunds", "GET", "/v1/admin/refunds", n.token("op", true), "", 200, ""},
			{"void as a buyer", "POST", "/v1/admin/sales/S/void", ann, `{"orders":["` + id + `"]}`, 403, "forbidden"},
			{"void without orders", "POST", "/v1/admin/sales/S/void", n.token("op", true), `{"orders":[]}`, 400, "invalid_request"},
			{"void of no sale", "POST", "/v1/admin/sales/T/void", n.token("op", true), `{"orders":["` + id + `"]}`, 404, "not_found"},
			{"void of a cancelled one", "POST", "/v1/admin/sales/S/void", n.token("op", true), `{"orders":["` + bobs + `"]}`, 200, ""},
			{"no route", "GET", "/v2", ann, "", 404, "not_found"},
			{"a slash too many", "POST", "/v1/orders/", ann, `{"sku":"S","quantity":1}`, 404, "not_found"},
			{"no method", "DELETE", "/v1/orders", ann, "", 405, "method_not_allowed"},
			{"livez", "GET", "/livez", "", "", 200, ""},
			{"readyz", "GET", "/readyz", "", "", 200, ""},
			{"metrics", "GET", "/metrics", "", "", 200, ""},
		} {
			if a := n.send(c.method, c.path, c.token, c.body).known(); a.status != c.status || a.code() != c.code {
				t.Errorf("call %s: got %d %s, want %d %s", c.name, a.status, a.body, c.status, c.code)
			}
		}

		n.audited("S", `"restoring":0`, `"queued":0`) // the cancelled unit is back
		n.audit("S").contains(`"total":3,"available":1,"queued":0,"sold":2`, `"paid":2`, `"balanced":true`)
		n.put("S", 1, 2, 900).want(409, "below_sold").contains("units sold, 2.")
		n.send("POST", "/v1/admin/sales/S/void", n.token("op", true), `{"orders":["`+id+`"]}`).want(200).contains(`{"voided":["` + id + `"],"skipped":[]}`)
		n.send("POST", "/v1/orders/"+id+"/pay", ann, `{"payment_ref":"r"}`).want(409, "order_closed")
		n.audited("S", `"restoring":0`, `"available":3,"queued":0,"sold":0`)
		old := n.put("S", 10, 2, 900).want(200).contains(`"available":10`).version()
		n.put("S", 11, 2, 900, func(all map[string]any) { all["description"], all["image_url"] = "A text", "/s.png" }).want(200).
			contains(`"description":"A text","image_url":"/s.png"`)
		op := n.token("op", true)
		n.send("PUT", "/v1/admin/sales/S", op, terms(t, nil), "If-Match: "+old).want(412, "precondition_failed")
		n.send("POST", "/v1/admin/sales/S/close", op, "", "If-Match: "+old).want(412, "precondition_failed")
		tag := n.send("GET", "/v1/sales/S", "", "").want(200).contains(`"total":11`).version()
		n.send("POST", "/v1/admin/sales/S/close", op, "", "If-Match: "+tag).want(200).contains(`"state":"closed"`)
		n.orderBy("S", "eve", "z").want(409, "closed")
	})
}

// A 429 has the rate limit headers and does not affect other buyers.
func TestRateLimited(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) {
		c.LimitBuyer = parseLimit(t, "1/m:2")
	})
	n.put("S", 10, 9, 900)
	n.order("S", "ann").want(201)
	n.orderBy("S", "ann", "l").want(201)
	third := n.orderBy("S", "ann", "m").want(429, "rate_limited")
	for _, name := range []string{"Retry-After", "RateLimit", "RateLimit-Policy"} {
		if third.header.Get(name) == "" {
			t.Errorf("third order within a minute: got no header %s, want one", name)
		}
	}
	n.order("S", "bob").want(201)
}
