package app

import (
	"fmt"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// A sale of ten goes through a failover that loses the last orders' writes: each
// unit is sold once, before or after, and not one more.
func TestRedisSentinel(t *testing.T) {
	sentinel := servertest.OpenRedisSentinel(t)
	stores := &servers.Stores{Kind: servers.KindReal, RedisURL: sentinel.URL, SQL: servertest.OpenSQL(t, servers.KindReal)}
	n := start(t, stores, nil)
	const units = 10
	if a := n.put("shoe", units, 1, 900); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	buyers := 0
	sell := func(want int, code string) {
		t.Helper()
		buyers++
		buyer := n.token(fmt.Sprintf("buyer-%d", buyers), false)
		var a answer
		// While the master changes there is no answer, and the same key finds out.
		eventually(t, fmt.Sprintf("buyer %d has an answer", buyers), func() bool {
			a = n.send("POST", "/v1/orders", buyer, `{"sku":"shoe","quantity":1}`, "Idempotency-Key: k", fmt.Sprintf("X-Forwarded-For: 10.0.0.%d", buyers))
			return a.status == 201 || a.status == 409
		})
		if a.status != want || a.code() != code {
			t.Fatalf("buyer %d: %d %s", buyers, a.status, a.body)
		}
	}
	for range 3 {
		sell(201, "")
	}
	if err := sentinel.Replicated(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sentinel.Detach(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		sell(201, "")
	}
	if err := sentinel.Failover(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range units - 6 {
		sell(201, "")
	}
	sell(409, "sold_out")
}
