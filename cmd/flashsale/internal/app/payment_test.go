package app

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// A sale that takes units on payment, as its callers see it.
func TestReserveOnPayment(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		n := start(t, s, nil)
		terms, err := json.Marshal(map[string]any{
			"name": "A talk", "price": 1999, "currency": "EUR", "total": 1, "per_buyer_limit": 1, "payment_window_s": 900,
			"opens_at": time.Now().Add(-time.Hour), "closes_at": time.Now().Add(time.Hour), "reserve_on": "payment",
		})
		if err != nil {
			t.Fatal(err)
		}
		if a := n.send("PUT", "/v1/admin/sales/S", n.token("op", true), string(terms)); a.status != 201 || !strings.Contains(a.body, `"reserve_on":"payment"`) {
			t.Fatalf("%d %s", a.status, a.body)
		}
		order := map[string]string{}
		for _, buyer := range []string{"ann", "bob"} { // more than there is
			a := n.send("POST", "/v1/orders", n.token(buyer, false), `{"sku":"S","quantity":1}`)
			if a.status != 201 || !strings.Contains(a.body, `"status":"pending_payment"`) {
				t.Fatalf("%s orders: %d %s", buyer, a.status, a.body)
			}
			order[buyer] = a.header.Get("Location")
		}
		for range 2 {
			if a := n.send("POST", order["ann"]+"/pay", n.token("ann", false), `{"payment_ref":"r"}`); a.status != 200 || !strings.Contains(a.body, `"status":"paid"`) {
				t.Errorf("ann pays: %d %s", a.status, a.body)
			}
			if a := n.send("POST", order["bob"]+"/pay", n.token("bob", false), `{"payment_ref":"r"}`); a.status != 409 || a.code() != "sold_out" {
				t.Errorf("bob pays: %d %s", a.status, a.body)
			}
		}
		if a := n.send("GET", order["bob"], n.token("bob", false), ""); a.status != 200 || !strings.Contains(a.body, `"status":"pending_payment"`) {
			t.Errorf("bob's order: %d %s", a.status, a.body)
		}
		if a := n.send("GET", "/v1/admin/sales/S/audit", n.token("op", true), ""); !strings.Contains(a.body, `"available":0`) || !strings.Contains(a.body, `"sold":1`) || !strings.Contains(a.body, `"paid":1`) {
			t.Errorf("audit: %s", a.body)
		}
	})
}
