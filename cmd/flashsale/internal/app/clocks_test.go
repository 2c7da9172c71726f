package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// Two nodes whose clocks are ten minutes apart open, sell, expire and close at
// the same time: windows are Redis's, everything else is the database's.
func TestClocksApart(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		fast := start(t, s, func(c *Config) { c.ClockOff = 5 * time.Minute })
		slow := start(t, s, func(c *Config) { c.ClockOff = -5 * time.Minute })
		nodes := []*node{fast, slow}
		body, err := json.Marshal(map[string]any{
			"name": "A thing", "price": 1, "currency": "EUR", "total": 10, "per_buyer_limit": 10,
			"opens_at": time.Now().Add(2 * time.Second), "closes_at": time.Now().Add(6 * time.Second), "payment_window_s": 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		if a := slow.send("PUT", "/v1/admin/sales/S", slow.token("op", true), string(body)); a.status != 201 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		ask := func(n *node, i int) string {
			a := n.send("POST", "/v1/orders", n.token(fmt.Sprint("buyer-", i), false), `{"sku":"S","quantity":1}`, "Idempotency-Key: k")
			return fmt.Sprint(a.status, " ", a.code())
		}
		state := func(n *node) string {
			var sale struct{ State string }
			n.send("GET", "/v1/sales/S", "", "").into(t, &sale)
			return sale.State
		}
		for i, n := range nodes {
			if got, is := ask(n, i), state(n); got != "409 not_open" || is != "scheduled" {
				t.Errorf("node %d before it opens: %s, %s", i, got, is)
			}
		}
		for i, n := range nodes {
			eventually(t, "open", func() bool { return state(n) == "open" })
			if got := ask(n, i); got != "201 " {
				t.Errorf("node %d while it is open: %s", i, got)
			}
		}
		eventually(t, "unpaid orders have expired", func() bool {
			a := fast.send("GET", "/v1/admin/sales/S/audit", fast.token("op", true), "")
			return strings.Contains(a.body, `"available":10`)
		})
		for i, n := range nodes {
			eventually(t, "closed", func() bool { return state(n) == "closed" })
			if got := ask(n, i+2); got != "409 closed" {
				t.Errorf("node %d after it closed: %s", i, got)
			}
		}
	})
}
