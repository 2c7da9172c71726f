package app

import (
	"fmt"
	"sync"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// On a Redis Cluster of three masters, fifty SKUs sell out without overselling. A cancelled
// unit sells again. The node has the account that OPERATIONS.md describes.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	cluster := servertest.OpenRedisCluster(t, 3)
	stores := &servers.Stores{Kind: servers.KindReal, RedisURL: asAccount(cluster.URL), SQL: servertest.OpenSQL(t, servers.KindReal)}
	for _, master := range cluster.Nodes {
		addAccount(t, openRedis(t, master.URL))
	}
	n := start(t, stores, nil)
	n.send("GET", "/readyz", "", "").want(200).contains(`"ok"`)

	const skus, units, buyers = 50, 5, 8
	var wg sync.WaitGroup
	for i := range skus {
		sku := fmt.Sprintf("sku-%02d", i)
		wg.Go(func() {
			n.put(sku, units, 1, 900).ok()
			sold := 0
			for b := range buyers {
				last, from := fmt.Sprintf("buyer-%d", b), fmt.Sprintf("X-Forwarded-For: 10.0.%d.%d", i, b)
				var a answer
				check.Eventually(t, sku+" answers", func() bool { // on a busy machine, a buyer has to retry
					a = n.order(sku, last, from)
					return a.status != 503 && a.status != 202
				})
				switch {
				case a.status == 201:
					sold++
					if sold == units {
						n.cancel(last, a.where(), from)
					}
				case a.code() != "sold_out":
					t.Errorf("order of %s in the cluster: got %d %s, want 201 or sold_out", sku, a.status, a.body)
				}
			}
			check.Eventually(t, sku+" sells the cancelled unit again", func() bool {
				return n.order(sku, "late", fmt.Sprintf("X-Forwarded-For: 10.1.%d.1", i)).status == 201 || sold > units
			})
			n.audited(sku, `"balanced":true`, `"available":0,"queued":0,"sold":5`)
		})
	}
	wg.Wait()

	for _, master := range cluster.Nodes {
		wantNoDenied(t, openRedis(t, master.URL))
		if keys, err := openRedis(t, master.URL).DBSize(t.Context()).Result(); keys == 0 || err != nil {
			t.Errorf("keys of a cluster master: got %d, error %v, want 1 or more", keys, err)
		}
	}
}
