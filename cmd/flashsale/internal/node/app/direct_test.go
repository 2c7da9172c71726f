package app

import (
	"slices"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// If Redis is down, the node continues to sell, with limits, replays and reads. /readyz and
// the streams report that Redis is missing. When Redis is back, the node leaves direct mode
// without an operator.
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
			w.until("no store is missing", "sale", func(e seen) bool { return len(e.Missing) == 0 && e.Exact })
			operator.until("the event log has begun", "overview", func(e seen) bool { return e.Point.At > 0 })
			two := func(buyer string) answer {
				return n.send("POST", "/v1/orders", n.token(buyer, false), `{"sku":"S","quantity":2}`, "Idempotency-Key: k")
			}
			before := two("ann").want(201)
			redis.Kill()
			w.until("Redis is missing", "sale", away)
			watch(t, n.URL(), "S", "").until("Redis is missing in a new stream", "sale", away)
			operator.until("Redis is missing in the overview", "overview", func(e seen) bool { return away(e) && len(e.Nodes) == 1 && e.Nodes[0].Here })
			w.until("the sale is in direct mode", "sale", func(e seen) bool { return e.Direct && e.Sale.Available == 3 })
			n.audited("S", `"available":3,"queued":0,"sold":2`, `"direct":true,"balanced":true`)
			check.Eventually(t, "/readyz reports degraded", func() bool {
				a := n.send("GET", "/readyz", "", "")
				return a.status == 200 && a.has(`"degraded"`, "redis does not answer")
			})
			two("ann").replays(before)
			where := two("bob").want(201).where()
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
				n.send("POST", "/v1/orders", n.token(refused.buyer, false), refused.body, "Idempotency-Key: "+refused.key).want(refused.status, refused.code)
			}
			for _, call := range []struct{ method, path, body string }{
				{"GET", where, ""}, {"GET", "/v1/orders", ""}, {"POST", where + "/pay", `{"payment_ref":"ref"}`},
				{"GET", "/v1/sales", ""}, {"GET", "/v1/sales/S", ""},
			} {
				n.send(call.method, call.path, n.token("bob", false), call.body).want(200)
			}
			n.send("GET", "/metrics", "", "").contains("flashsale_direct_orders_total 1\n", "flashsale_sales_in_direct_mode 1\n")
			if n.metric("flashsale_direct_entered_total") < 1 { // may be higher on a busy machine
				t.Error("flashsale_direct_entered_total: got 0, want 1 or more")
			}
			check.Must(t, redis.Restart(t.Context()))
			check.Eventually(t, "the sale leaves direct mode", func() bool {
				return n.metric("flashsale_sales_in_direct_mode") == 0
			})
			check.Eventually(t, "/readyz reports ok", func() bool {
				a := n.send("GET", "/readyz", "", "")
				return a.status == 200 && a.has(`"ok"`)
			})
			n.audited("S", `"available":1,"queued":0,"sold":4`, `"balanced":true`)
			w.until("the gate is back", "sale", func(e seen) bool { return len(e.Missing) == 0 && !e.Direct && e.Exact })
			for _, what := range []string{"Redis away", "Direct mode begun", "Redis back", "Direct mode ended"} {
				operator.until("the log contains "+what, "overview", func(e seen) bool { return e.logs(what, "") })
			}
		})
	}
}

// A node that starts while Redis is down sells in direct mode.
func TestStartsWithoutRedis(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	change := func(c *Config) { c.Lease, c.DirectAfter = time.Second, 200*time.Millisecond }
	previous := start(t, s, change)
	previous.put("S", 5, 2, 900)
	check.Must(t, previous.stop())
	withoutRedis := *s
	withoutRedis.RedisURL = "redis://127.0.0.1:1/0" // a closed port
	n := start(t, &withoutRedis, change)
	check.Eventually(t, "an order is accepted without Redis", func() bool {
		return n.send("POST", "/v1/orders", n.token("ann", false), `{"sku":"S","quantity":2}`, "Idempotency-Key: k").status == 201
	})
	n.send("GET", "/readyz", "", "").want(200).contains(`"degraded"`)
	back := start(t, s, change)
	check.Must(t, n.stop())
	check.Eventually(t, "the sale has left direct mode with a full gate", func() bool {
		return back.audit("S").has(`"available":3,"queued":0,"sold":2`) && back.metric("flashsale_sales_in_direct_mode") == 0
	})
}
