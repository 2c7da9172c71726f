package app

import (
	"fmt"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// Two nodes whose clocks are ten minutes apart open, sell, expire and close at
// the same time: windows are Redis's, everything else is the database's.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		fast := start(t, s, func(c *Config) { c.ClockOff = 5 * time.Minute })
		slow := start(t, s, func(c *Config) { c.ClockOff = -5 * time.Minute })
		nodes := []*node{fast, slow}
		slow.put("S", 10, 10, 1, window(3*time.Second, 7*time.Second)).ok()
		ask := func(n *node, i int) string {
			a := n.order("S", fmt.Sprint("buyer-", i))
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
			check.Eventually(t, "open", func() bool { return state(n) == "open" })
			if got := ask(n, i); got != "201 " {
				t.Errorf("node %d while it is open: %s", i, got)
			}
		}
		fast.audited("S", `"available":10`)
		for i, n := range nodes {
			check.Eventually(t, "closed", func() bool { return state(n) == "closed" })
			if got := ask(n, i+2); got != "409 closed" {
				t.Errorf("node %d after it closed: %s", i, got)
			}
		}
	})
}
