package app

import (
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// A sale that takes units on payment, as its callers see it.
func TestReserveOnPayment(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		n := start(t, s, nil)
		n.put("S", 1, 1, 900, onPayment).ok().says(`"reserve_on":"payment"`)
		order := map[string]string{}
		for _, buyer := range []string{"ann", "bob"} { // more than there is
			order[buyer] = n.order("S", buyer).is(201).says(`"status":"pending_payment"`).where()
		}
		for range 2 {
			n.pay("ann", order["ann"], "r").is(200).says(`"status":"paid"`)
			n.pay("bob", order["bob"], "r").is(409, "sold_out")
		}
		n.send("GET", order["bob"], n.token("bob", false), "").is(200).says(`"status":"pending_payment"`)
		n.audit("S").says(`"available":0`, `"sold":1`, `"paid":1`)
	})
}
