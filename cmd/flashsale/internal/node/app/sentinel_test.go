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
	t.Parallel()
	sentinel := servertest.OpenRedisSentinel(t)
	stores := &servers.Stores{Kind: servers.KindReal, RedisURL: sentinel.URL, SQL: servertest.OpenSQL(t, servers.KindReal)}
	n := start(t, stores, nil)
	const units = 10
	n.put("shoe", units, 1, 900).is(201)
	buyers := 0
	sell := func(want int, code string) {
		t.Helper()
		buyers++
		var a answer
		// While the master changes there is no answer, and the same key finds out.
		eventually(t, fmt.Sprintf("buyer %d has an answer", buyers), func() bool {
			a = n.order("shoe", fmt.Sprint("buyer-", buyers), fmt.Sprint("X-Forwarded-For: 10.0.0.", buyers))
			return a.status == 201 || a.status == 409
		})
		if a.status != want || a.code() != code {
			t.Fatalf("buyer %d: %d %s", buyers, a.status, a.body)
		}
	}
	for range 3 {
		sell(201, "")
	}
	must(t, sentinel.Replicated(t.Context()))
	must(t, sentinel.Detach(t.Context()))
	for range 3 {
		sell(201, "")
	}
	must(t, sentinel.Failover(t.Context()))
	for range units - 6 {
		sell(201, "")
	}
	sell(409, "sold_out")
}
