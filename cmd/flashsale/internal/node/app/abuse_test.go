package app

import (
	"fmt"
	"strings"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// OrdersPerBuyer bounds the orders of a buyer and SKU, cancelled ones included. Refused
// orders leave no rows and take no units. Replays are answered as before.
func TestOrdersPerBuyer(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		const limit = 12 // more orders than the keeper usually reads per buyer
		n := start(t, s, func(c *Config) { c.OrdersPerBuyer = limit })
		n.put("S", 100, 50, 900)
		n.put("other", 100, 50, 900)
		var first answer
		for i := range limit {
			a := n.orderBy("S", "ann", fmt.Sprint("key-", i)).want(201)
			if first.body == "" {
				first = a
			}
			n.cancel("ann", a.where()).want(200)
		}
		for i := range 3 {
			n.orderBy("S", "ann", fmt.Sprint("more-", i)).want(409, "buyer_limit", "as many orders of this sale as one buyer may make")
		}
		if a := n.orderBy("S", "ann", "key-0").want(201); a.where() != first.where() {
			t.Errorf("replay: got %s, want order %s", a.body, first.where())
		}
		n.order("other", "ann").want(201)
		n.order("S", "bob").want(201)
		op := n.token("op", true)
		if a := n.send("GET", "/v1/admin/sales/S/orders?limit=100", op, ""); strings.Count(a.body, `"ann"`) != limit {
			t.Errorf("orders of ann in the sale: got %d rows, want %d", strings.Count(a.body, `"ann"`), limit)
		}
		n.audited("S", `"available":99,"queued":0,"sold":1`, `"balanced":true`) // the units of all cancelled orders are released
	})
}

// Placing, paying and cancelling take from one bucket of a buyer.
func TestBuyersLimitCountsPaymentsAndCancellations(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		n := start(t, s, func(c *Config) { c.LimitBuyer = parseLimit(t, "1/h:3") })
		n.put("S", 100, 2, 900)
		for _, last := range []string{"/pay", "/cancel"} {
			buyer := n.token("buyer-of-"+last[1:], false)
			where := n.send("POST", "/v1/orders", buyer, `{"sku":"S","quantity":1}`).header.Get("Location")
			body := map[string]string{"/pay": `{"payment_ref":"r"}`}
			var statuses []int
			for _, call := range []string{"/cancel", "/pay", last} {
				statuses = append(statuses, n.send("POST", where+call, buyer, body[call]).status)
			}
			if got := fmt.Sprint(statuses); got != "[200 409 429]" {
				t.Errorf("cancel, pay and %s: got %s, want [200 409 429]", last, got)
			}
		}
	})
}

// A buyer with the maximum number of orders can still pay them.
func TestBuyerAtOrderLimitCanPay(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		const limit = 20 // more orders than the keeper usually reads per buyer
		n := start(t, s, func(c *Config) { c.OrdersPerBuyer = limit })
		n.put("S", 100, 2, 900, onPayment)
		var orders []string
		for i := range limit {
			orders = append(orders, n.orderBy("S", "ann", fmt.Sprint("key-", i)).want(201).where())
		}
		for i, want := range []string{"", "", "buyer_limit"} { // the third exceeds UnitsPerBuyer
			n.pay("ann", orders[i], fmt.Sprint("ref-", i)).want(map[string]int{"": 200, "buyer_limit": 409}[want], want)
		}
	})
}
