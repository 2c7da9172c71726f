package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// Redis answers and refuses every write, as when its memory is full, it cannot
// save, or it is a master that was demoted behind an address that has not moved.
// Sales go on without it, and through it again once it takes writes.
func TestRedisThatRefusesWrites(t *testing.T) {
	t.Parallel()
	for how, refuse := range map[string]struct{ begin, end []any }{
		"out of memory": {[]any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		"cannot save":   {[]any{"CONFIG", "SET", "save", "3600 1"}, []any{"CONFIG", "SET", "save", ""}},
		"read-only":     {[]any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}}, // where nobody listens
	} {
		t.Run(how, func(t *testing.T) {
			s := servertest.Open(t, servers.KindReal)
			rdb := openRedis(t, s.RedisURL)
			n := start(t, s, func(c *Config) { quick(c); c.DirectAfter = 200 * time.Millisecond })
			n.put("S", 10, 1, 900)
			n.sold("S", "ann")
			failToSave(t, rdb)
			check.Must(t, rdb.Do(t.Context(), refuse.begin...).Err())
			if err := rdb.Set(t.Context(), "k", 1, 0).Err(); err == nil {
				t.Fatal("it takes a write")
			}
			n.sold("S", "bob")
			if up, direct := n.metric("flashsale_redis_up"), n.metric("flashsale_sales_in_direct_mode"); up != 0 || direct != 1 {
				t.Errorf("Redis up %v, sales in direct mode %v", up, direct)
			}
			check.Must(t, rdb.Do(t.Context(), refuse.end...).Err())
			check.Eventually(t, "sold through Redis again", func() bool {
				return n.metric("flashsale_sales_in_direct_mode") == 0 && n.order("S", "eve").status == 201
			})
			n.audited("S", `"available":7,"queued":0,"sold":3`, `"balanced":true`)
		})
	}
}

// failToSave has a Redis fail to write its snapshot. It refuses writes from when it
// is told to save by itself.
func failToSave(t *testing.T, rdb *redis.Client) {
	t.Helper()
	where, err := rdb.ConfigGet(t.Context(), "dir").Result()
	check.Must(t, err)
	check.Must(t, os.MkdirAll(filepath.Join(where["dir"], "dump.rdb", "no file"), 0o700))
	check.Must(t, rdb.BgSave(t.Context()).Err())
	check.Eventually(t, "the snapshot has failed", func() bool {
		return strings.Contains(rdb.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
	})
}

// Without memory Redis still lets a keeper be replaced: the next one carries the
// queue over, and units come back.
func TestKeeperIsReplacedWithoutMemory(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindReal)
	via, w := servertest.SQLVia(t, s)
	a := start(t, via, quick)
	skus := []string{"S0", "S1", "S2"}
	var orders []string
	for _, sku := range skus {
		a.put(sku, 2, 1, 900)
		orders = append(orders, a.sold(sku, "ann").where())
	}
	b := start(t, s, func(c *Config) { quick(c); c.Node = "two" })
	w.Cut() // what waits in the queues is b's to carry over
	for _, sku := range skus {
		if placed := b.order(sku, "bob", "Prefer: respond-async"); placed.status != 202 && placed.status != 201 {
			t.Fatalf("%d %s", placed.status, placed.body)
		}
	}
	check.Must(t, openRedis(t, s.RedisURL).ConfigSet(t.Context(), "maxmemory", "1").Err())
	for _, where := range orders {
		b.cancel("ann", where).is(200)
	}
	check.Eventually(t, "b keeps all, their queues are empty and the cancelled units are back", func() bool {
		whole := func(sku string) bool { return b.audit(sku).has(`"available":1,"queued":0,"sold":1`, `"balanced":true`) }
		return b.kept() == len(skus) && whole(skus[0]) && whole(skus[1]) && whole(skus[2])
	})
}

// A Redis Cluster that goes on without full coverage loses a master. The sales
// whose gate it had are sold without it; all others through their gates.
func TestClusterLosesAMaster(t *testing.T) {
	t.Parallel()
	cluster := servertest.OpenRedisCluster(t, 3)
	var addrs []string
	for _, n := range cluster.Nodes {
		addrs = append(addrs, n.Addr())
		one := redis.NewClient(&redis.Options{Addr: n.Addr()})
		check.Must(t, one.ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
		_ = one.Close()
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = rdb.Close() })
	s := &servers.Stores{Kind: servers.KindReal, RedisURL: cluster.URL, SQL: servertest.OpenSQL(t, servers.KindReal)}
	// The locks are elsewhere: those of the lost master's slots could not be taken.
	with := func(c *Config) {
		c.Lease, c.Wait, c.DirectAfter, c.Lock = 2*time.Second, time.Second, 500*time.Millisecond, lockMySQL
	}
	a, b := start(t, s, with), start(t, s, with)
	victim := cluster.Nodes[0].Addr()
	lost := map[string]bool{}
	for i := 0; len(lost) < 12; i++ {
		sku := fmt.Sprint("S", i)
		a.put(sku, 100, 100, 900)
		master, err := rdb.MasterForKey(context.Background(), "sale:{"+sku+"}")
		check.Must(t, err)
		lost[sku] = master.Options().Addr == victim
	}
	cluster.Nodes[0].Kill()
	var wg sync.WaitGroup
	for sku, gone := range lost {
		wg.Go(func() {
			n := 0
			check.Eventually(t, sku+" is sold", func() bool {
				n++
				return b.orderBy(sku, "bob", fmt.Sprint(n), "X-Forwarded-For: 10.0.0."+sku[1:]).status == 201
			})
			var mode string
			check.OK(t, openSQL(t, s.SQL).QueryRowContext(t.Context(), "SELECT mode FROM sales WHERE sku = ?", sku).Scan(&mode))
			if want := map[bool]string{true: "direct", false: "gate"}[gone]; mode != want {
				t.Errorf("%s, master lost %t: sold by %s", sku, gone, mode)
			}
		})
	}
	wg.Wait()
}
