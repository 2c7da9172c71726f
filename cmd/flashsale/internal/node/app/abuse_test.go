package app

import (
	"fmt"
	"strings"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// A buyer makes at most so many orders of one SKU, cancelled ones included. What is
// over that leaves no row and no unit missing, and replays are answered as before.
func TestOrdersPerBuyer(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		const limit = 12 // more than the keeper usually reads of a buyer
		n := start(t, s, func(c *Config) { c.OrdersPerBuyer = limit })
		n.put("S", 100, 50, 900)
		n.put("other", 100, 50, 900)
		var first answer
		for i := range limit {
			a := n.orderBy("S", "ann", fmt.Sprint("key-", i)).is(201)
			if first.body == "" {
				first = a
			}
			n.cancel("ann", a.where()).is(200)
		}
		for i := range 3 {
			n.orderBy("S", "ann", fmt.Sprint("more-", i)).is(409, "buyer_limit")
		}
		if a := n.orderBy("S", "ann", "key-0").is(201); a.where() != first.where() {
			t.Errorf("replay: %s", a.body)
		}
		n.order("other", "ann").is(201)
		n.order("S", "bob").is(201)
		op := n.token("op", true)
		if a := n.send("GET", "/v1/admin/sales/S/orders?limit=100", op, ""); strings.Count(a.body, `"ann"`) != limit {
			t.Errorf("rows of ann: %d", strings.Count(a.body, `"ann"`))
		}
		n.audited("S", `"available":99,"queued":0,"sold":1`, `"balanced":true`) // all units are back
	})
}

// References of payments can be invented without end. Of one order ten are
// recorded as claims; every further one is refused without a trace, and for good.
func TestRefundClaimsAreLimited(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		n := start(t, s, nil)
		n.put("S", 100, 2, 900)
		op, where := n.token("op", true), n.order("S", "ann").where()
		n.cancel("ann", where).is(200)
		for range 2 {
			for i := range 15 {
				n.pay("ann", where, fmt.Sprint("invented-", i)).is(409, "order_closed")
			}
			if claims := strings.Count(n.send("GET", "/v1/admin/refunds?limit=100", op, "").body, `"payment_ref"`); claims != 10 {
				t.Errorf("%d claims", claims)
			}
		}
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
			var heard []int
			for _, call := range []string{"/cancel", "/pay", last} {
				heard = append(heard, n.send("POST", where+call, buyer, body[call]).status)
			}
			if got := fmt.Sprint(heard); got != "[200 409 429]" {
				t.Errorf("cancel, pay and %s: %s", last, got)
			}
		}
	})
}

// A buyer who may make no more orders still pays those that are there.
func TestBuyerAtOrderLimitCanPay(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		const limit = 20 // more than the keeper usually reads of a buyer
		n := start(t, s, func(c *Config) { c.OrdersPerBuyer = limit })
		n.put("S", 100, 2, 900, onPayment)
		var orders []string
		for i := range limit {
			orders = append(orders, n.orderBy("S", "ann", fmt.Sprint("key-", i)).is(201).where())
		}
		for i, want := range []string{"", "", "buyer_limit"} { // the third is above the buyer's limit of units
			n.pay("ann", orders[i], fmt.Sprint("ref-", i)).is(map[string]int{"": 200, "buyer_limit": 409}[want], want)
		}
	})
}
