package app

import (
	"slices"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// Redis is down for a long time. The node continues to sell, with its limiter, tokens,
// replays and reads, and reports that it is degraded, as the streams do. When Redis is
// back, the node returns to normal without an operator.
func TestSellsWithoutRedis(t *testing.T) {
	t.Parallel()
	for _, kind := range servertest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			s := servertest.Open(t, kind)
			redis := redisOf(s)
			n := start(t, s, func(c *Config) { often("one")(c); c.Lease, c.DirectAfter = time.Second, 200*time.Millisecond })
			n.put("S", 5, 2, 900)
			w, operator := watch(t, n.URL(), "S", ""), watch(t, n.URL(), "", n.token("op", true))
			away := func(e seen) bool { return slices.Equal(e.Missing, []string{"redis"}) }
			w.until("all is well", "sale", func(e seen) bool { return len(e.Missing) == 0 && e.Exact })
			operator.until("this node has begun its log", "overview", func(e seen) bool { return e.Point.At > 0 })
			two := func(buyer string) answer {
				return n.send("POST", "/v1/orders", n.token(buyer, false), `{"sku":"S","quantity":2}`, "Idempotency-Key: k")
			}
			before := two("ann").is(201)
			redis.Kill()
			w.until("Redis is missed", "sale", away)
			watch(t, n.URL(), "S", "").until("who comes now sees it as well", "sale", away)
			operator.until("Redis is missed by this node", "overview", func(e seen) bool { return away(e) && len(e.Nodes) == 1 && e.Nodes[0].Here })
			w.until("it is sold past Redis", "sale", func(e seen) bool { return e.Direct && e.Sale.Available == 3 })
			check.Eventually(t, "it says that it sells without Redis", func() bool {
				a := n.send("GET", "/readyz", "", "")
				return a.status == 200 && a.has(`"degraded"`, "redis does not answer")
			})
			two("ann").replays(before)
			where := two("bob").is(201).where()
			for _, refused := range []struct {
				buyer, key, body string
				status           int
				code             string
			}{
				{"ann", "k", `{"sku":"S","quantity":1}`, 422, "idempotency_mismatch"},
				{"ann", "l", `{"sku":"S","quantity":1}`, 409, "buyer_limit"},
				{"eve", "k", `{"sku":"S","quantity":2}`, 409, "sold_out"},
				{"eve", "k", `{"sku":"none","quantity":2}`, 404, "not_found"},
			} {
				n.send("POST", "/v1/orders", n.token(refused.buyer, false), refused.body, "Idempotency-Key: "+refused.key).is(refused.status, refused.code)
			}
			for _, call := range []struct{ method, path, body string }{
				{"GET", where, ""}, {"GET", "/v1/orders", ""}, {"POST", where + "/pay", `{"payment_ref":"ref"}`},
				{"GET", "/v1/sales", ""}, {"GET", "/v1/sales/S", ""},
			} {
				n.send(call.method, call.path, n.token("bob", false), call.body).is(200)
			}
			n.send("GET", "/metrics", "", "").says("flashsale_direct_orders_total 1\n", "flashsale_sales_in_direct_mode 1\n")
			if n.metric("flashsale_direct_entered_total") < 1 { // more often where the machine is busy
				t.Error("direct mode was not counted")
			}
			check.Must(t, redis.Restart(t.Context()))
			check.Eventually(t, "it sells through the gate", func() bool {
				return n.metric("flashsale_sales_in_direct_mode") == 0
			})
			check.Eventually(t, "ready, and nothing missing", func() bool {
				a := n.send("GET", "/readyz", "", "")
				return a.status == 200 && a.has(`"ok"`)
			})
			n.audited("S", `"available":1,"queued":0,"sold":4`, `"balanced":true`)
			w.until("the gate is back", "sale", func(e seen) bool { return len(e.Missing) == 0 && !e.Direct && e.Exact })
			for _, what := range []string{"Redis away", "Direct mode begun", "Redis back", "Direct mode ended"} {
				operator.until("the log says: "+what, "overview", func(e seen) bool { return e.logs(what, "") })
			}
		})
	}
}

// A node that starts while Redis is gone sells as those do that were there.
func TestStartsWithoutRedis(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	change := func(c *Config) { c.Lease, c.DirectAfter = time.Second, 200*time.Millisecond }
	was := start(t, s, change)
	was.put("S", 5, 2, 900)
	check.Must(t, was.stop())
	gone := *s
	gone.RedisURL = "redis://127.0.0.1:1/0" // where nothing listens
	n := start(t, &gone, change)
	check.Eventually(t, "it sells", func() bool {
		return n.send("POST", "/v1/orders", n.token("ann", false), `{"sku":"S","quantity":2}`, "Idempotency-Key: k").status == 201
	})
	n.send("GET", "/readyz", "", "").is(200).says(`"degraded"`)
	back := start(t, s, change)
	check.Must(t, n.stop())
	check.Eventually(t, "the gate is back", func() bool {
		return back.audit("S").has(`"available":3,"queued":0,"sold":2`) && back.metric("flashsale_sales_in_direct_mode") == 0
	})
}
