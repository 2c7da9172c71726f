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

// If Redis responds but rejects writes, sales switch to direct mode, and back when it accepts
// writes. Redis rejects writes if its memory is full, if it cannot save, or if it has been
// demoted to a replica.
func TestRedisThatRefusesWrites(t *testing.T) {
	t.Parallel()
	for how, refuse := range map[string]struct{ begin, end []any }{
		"out of memory": {[]any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		"cannot save":   {[]any{"CONFIG", "SET", "save", "3600 1"}, []any{"CONFIG", "SET", "save", ""}},
		"read-only":     {[]any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}}, // port 1 is closed
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
				t.Fatal("write to Redis without memory: got no error, want one")
			}
			n.sold("S", "bob")
			n.send("GET", "/readyz", "", "").want(200).contains(`"degraded"`) // a read-only Redis answers PING
			if up, direct := n.metric("flashsale_redis_up"), n.metric("flashsale_sales_in_direct_mode"); up != 0 || direct != 1 {
				t.Errorf("metrics without a writable Redis: got redis_up %v, sales_in_direct_mode %v, want 0 and 1", up, direct)
			}
			check.Must(t, rdb.Do(t.Context(), refuse.end...).Err())
			check.Eventually(t, "the gate sells again", func() bool {
				return n.metric("flashsale_sales_in_direct_mode") == 0 && n.order("S", "eve").status == 201
			})
			n.audited("S", `"available":7,"queued":0,"sold":3`, `"balanced":true`)
		})
	}
}

// failToSave makes a snapshot of Redis fail. Redis then rejects writes as soon as automatic
// snapshots are enabled.
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

// If the memory of Redis is full, a new keeper can still take over the sales, commit their
// queues and release units.
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
	w.Cut() // from now on only b can commit the queues
	for _, sku := range skus {
		if placed := b.order(sku, "bob", "Prefer: respond-async"); placed.status != 202 && placed.status != 201 {
			t.Fatalf("order of bob: got %d %s, want 202 or 201", placed.status, placed.body)
		}
	}
	check.Must(t, openRedis(t, s.RedisURL).ConfigSet(t.Context(), "maxmemory", "1").Err())
	for _, where := range orders {
		b.cancel("ann", where).want(200)
	}
	check.Eventually(t, "b keeps all sales, the queues are empty and the units are released", func() bool {
		settled := func(sku string) bool { return b.audit(sku).has(`"available":1,"queued":0,"sold":1`, `"balanced":true`) }
		return b.kept() == len(skus) && settled(skus[0]) && settled(skus[1]) && settled(skus[2])
	})
}

// A Redis Cluster without the requirement of full coverage loses a master. Sales in the slots
// of this master sell in direct mode, and all other sales through their gates.
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
	// Locks in the slots of the lost master could not be acquired, so MySQL keeps the locks.
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
				t.Errorf("sale %s, master lost %t: got mode %s, want %s", sku, gone, mode, want)
			}
		})
	}
	wg.Wait()
}
