package app

import (
	"fmt"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// Two nodes whose clocks differ by ten minutes agree on which sales are open and when orders
// expire. The clock of Redis decides on sale windows, and the clock of the database on all
// other times. A node that used its own clock would be wrong about at least one sale.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		fast := start(t, s, func(c *Config) { c.ClockOff = 5 * time.Minute })
		slow := start(t, s, func(c *Config) { c.ClockOff = -5 * time.Minute })
		for sku, c := range map[string]struct {
			opens, closes time.Duration // from now
			state, answer string
		}{
			"opens-soon":  {2 * time.Minute, time.Hour, "scheduled", "409 not_open"},
			"just-opened": {-2 * time.Minute, 2 * time.Minute, "open", "201 "},
			"just-closed": {-time.Hour, -2 * time.Minute, "closed", "409 closed"},
		} {
			slow.put(sku, 10, 10, 120, window(c.opens, c.closes)).ok()
			for i, n := range []*node{fast, slow} {
				var sale struct{ State string }
				check.Eventually(t, "the node has the sale", func() bool {
					a := n.send("GET", "/v1/sales/"+sku, "", "")
					if a.status == 200 {
						a.into(t, &sale)
					}
					return a.status == 200
				})
				a := n.order(sku, fmt.Sprint("buyer-", i))
				if got := fmt.Sprint(a.status, " ", a.code()); got != c.answer || sale.State != c.state {
					t.Errorf("order at node %d with another clock, sale %s: got answer %s and state %s, want %s and %s", i, sku, got, sale.State, c.answer, c.state)
				}
				if a.status == 201 { // two minutes to pay
					fast.pay(fmt.Sprint("buyer-", i), a.where(), "r").want(200)
				}
			}
		}
		slow.put("expires", 10, 10, 1).ok()
		slow.order("expires", "ann").want(201)
		slow.audited("expires", `"available":10`)
	})
}
