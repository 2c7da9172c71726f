package app

import (
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// Redis goes for long: the whole API sells on, with limiter, tokens, replays and
// reads, and says of itself that it is degraded. When Redis is back it is as
// before, without a hand.
func TestSellsWithoutRedis(t *testing.T) {
	for _, kind := range servertest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			s, redis, _ := stoppable(t, kind)
			n := start(t, s, func(c *Config) {
				c.Lease = 2 * time.Second
				c.DirectAfter = 200 * time.Millisecond
			})
			n.put("S", 5, 2, 900)
			order := func(buyer, key string) answer {
				return n.send("POST", "/v1/orders", n.token(buyer, false), `{"sku":"S","quantity":2}`, "Idempotency-Key: "+key)
			}
			before := order("ann", "k")
			if before.status != 201 {
				t.Fatalf("%d %s", before.status, before.body)
			}
			redis.Kill()
			eventually(t, "it says that it sells without Redis", func() bool {
				a := n.send("GET", "/readyz", "", "")
				return a.status == 200 && strings.Contains(a.body, `"degraded"`) && strings.Contains(a.body, "redis does not answer")
			})
			again := order("ann", "k")
			if again.status != 201 || again.body != before.body || again.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("replay: %d %s", again.status, again.body)
			}
			bob := order("bob", "k")
			if bob.status != 201 || bob.header.Get("Location") == "" {
				t.Fatalf("%d %s", bob.status, bob.body)
			}
			where := bob.header.Get("Location")
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
				a := n.send("POST", "/v1/orders", n.token(refused.buyer, false), refused.body, "Idempotency-Key: "+refused.key)
				if a.status != refused.status || a.code() != refused.code {
					t.Errorf("%+v: %d %s", refused, a.status, a.body)
				}
			}
			for _, call := range []struct{ method, path, body string }{
				{"GET", where, ""}, {"GET", "/v1/orders", ""}, {"POST", where + "/pay", `{"payment_ref":"ref"}`},
				{"GET", "/v1/sales", ""}, {"GET", "/v1/sales/S", ""},
			} {
				if a := n.send(call.method, call.path, n.token("bob", false), call.body); a.status != 200 {
					t.Errorf("%s %s: %d %s", call.method, call.path, a.status, a.body)
				}
			}
			if a := n.send("GET", "/metrics", "", ""); !strings.Contains(a.body, "flashsale_direct_orders_total 1\n") ||
				!strings.Contains(a.body, "flashsale_direct_skus 1\n") || !strings.Contains(a.body, "flashsale_direct_entered_total 1\n") {
				t.Errorf("metrics: %s", a.body)
			}
			if err := redis.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it sells through the gate", func() bool {
				return strings.Contains(n.send("GET", "/metrics", "", "").body, "flashsale_direct_skus 0\n")
			})
			eventually(t, "ready, and nothing missing", func() bool {
				a := n.send("GET", "/readyz", "", "")
				return a.status == 200 && strings.Contains(a.body, `"ok"`)
			})
			eventually(t, "balanced", func() bool {
				a := n.send("GET", "/v1/admin/sales/S/audit", n.token("op", true), "")
				return strings.Contains(a.body, `"available":1,"held":0,"sold":4`) && strings.Contains(a.body, `"balanced":true`)
			})
		})
	}
}

// A node that starts while Redis is gone sells as those do that were there.
func TestStartsWithoutRedis(t *testing.T) {
	s := servertest.Open(t, servers.KindEmbedded)
	change := func(c *Config) { c.DirectAfter = 200 * time.Millisecond }
	was := start(t, s, change)
	was.put("S", 5, 2, 900)
	if err := was.stop(); err != nil {
		t.Fatal(err)
	}
	gone := *s
	gone.RedisURL = "redis://127.0.0.1:1/0" // where nothing listens
	n := start(t, &gone, change)
	eventually(t, "it sells", func() bool {
		return n.send("POST", "/v1/orders", n.token("ann", false), `{"sku":"S","quantity":2}`, "Idempotency-Key: k").status == 201
	})
	if a := n.send("GET", "/readyz", "", ""); a.status != 200 || !strings.Contains(a.body, `"degraded"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	back := start(t, s, change)
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the gate is back", func() bool {
		a := back.send("GET", "/v1/admin/sales/S/audit", back.token("op", true), "")
		return strings.Contains(a.body, `"available":3,"held":0,"sold":2`) && strings.Contains(back.send("GET", "/metrics", "", "").body, "flashsale_direct_skus 0\n")
	})
}
