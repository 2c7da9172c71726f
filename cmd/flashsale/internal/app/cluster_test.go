package app

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// A Redis Cluster of three masters sells fifty SKUs over its slots, each to
// its last unit and not one more; a unit that was cancelled is sold again.
func TestRedisCluster(t *testing.T) {
	cluster, err := servers.StartRedisCluster(t.Context(), 3)
	if errors.Is(err, servers.ErrNotInstalled) && os.Getenv("FLASHSALE_TEST_REAL") != "require" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Close() })
	stores := &servers.Stores{Kind: servers.KindReal, RedisURL: cluster.URL, SQL: servertest.OpenSQL(t, servers.KindReal)}
	n := start(t, stores, nil)

	const skus, units, buyers = 50, 5, 8
	var wg sync.WaitGroup
	for i := range skus {
		sku := fmt.Sprintf("sku-%02d", i)
		wg.Go(func() {
			if a := n.put(sku, units, 1, 900); a.status/100 != 2 {
				t.Errorf("%s: %d %s", sku, a.status, a.body)
				return
			}
			sold := 0
			var order struct{ ID string }
			var last string
			for b := range buyers {
				last = n.token(fmt.Sprintf("buyer-%d", b), false)
				var a answer
				eventually(t, sku+" answers", func() bool { // a busy machine makes a buyer ask again
					a = n.send("POST", "/v1/orders", last, `{"sku":"`+sku+`","quantity":1}`, "Idempotency-Key: k", fmt.Sprintf("X-Forwarded-For: 10.0.%d.%d", i, b))
					return a.status != 503 && a.status != 202
				})
				switch {
				case a.status == 201:
					sold++
					a.into(t, &order)
					if sold == units {
						n.send("POST", "/v1/orders/"+order.ID+"/cancel", last, "", fmt.Sprintf("X-Forwarded-For: 10.0.%d.%d", i, b))
					}
				case a.code() != "sold_out":
					t.Errorf("%s: %d %s", sku, a.status, a.body)
				}
			}
			eventually(t, sku+" sells the cancelled unit again", func() bool {
				a := n.send("POST", "/v1/orders", n.token("late", false), `{"sku":"`+sku+`","quantity":1}`, "Idempotency-Key: k", fmt.Sprintf("X-Forwarded-For: 10.1.%d.1", i))
				return a.status == 201 || sold > units
			})
			eventually(t, sku+" is balanced", func() bool {
				a := n.send("GET", "/v1/admin/sales/"+sku+"/audit", n.token("op", true), "")
				return strings.Contains(a.body, `"balanced":true`) && strings.Contains(a.body, `"available":0,"held":0,"sold":5`)
			})
		})
	}
	wg.Wait()

	served := 0
	for _, node := range cluster.Nodes {
		if keysOn(t, node) > 0 {
			served++
		}
	}
	if served != len(cluster.Nodes) {
		t.Errorf("%d of %d masters hold keys", served, len(cluster.Nodes))
	}
}

func keysOn(t *testing.T, r *servers.Redis) int64 {
	t.Helper()
	rdb := openRedis(t, r.URL)
	n, err := rdb.DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
