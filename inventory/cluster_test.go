package inventory

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// openCluster returns a gate on a cluster, configured as in a node.
func openCluster(t *testing.T, c *servers.RedisCluster) (KeeperGate, *redis.ClusterClient) {
	t.Helper()
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr())
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true, MaxRetries: 1, DialerRetries: 1,
		PoolSize: 1000, // after PoolSize failed dials, go-redis keeps dialling in the background
	})
	t.Cleanup(func() { _ = rdb.Close() })
	g := newGate(rdb, patient)
	rdb.OnNewNode(func(n *redis.Client) { n.Options().OnConnect = g.OnConnect(n.Options().Addr) })
	return g, rdb
}

// A replica is promoted that has not received the release of a unit. No node refuses as
// sold out, not even a node that was connected to the replica before. Neither does the
// rebuilt gate.
func TestClusterFailoverThatLosesARelease(t *testing.T) {
	t.Parallel()
	c := servertest.OpenRedisCluster(t, 3)
	ctx, sku := t.Context(), newSKU()
	master, err := c.Owner(ctx, "sale:{"+sku+"}")
	check.Must(t, err)
	replica, err := c.AddReplica(ctx, master)
	check.Must(t, err)
	g, rdb := openCluster(t, c)
	open(t, g, sku, 1, 1)
	reserve(t, g, order(sku, "released", "ann"))
	check.Must(t, rdb.ForEachSlave(ctx, func(ctx context.Context, r *redis.Client) error { return r.Ping(ctx).Err() }))

	check.Must(t, master.WaitReplicated(ctx))
	check.Must(t, master.DetachReplica(ctx, replica))
	if n, err := g.ReleaseHolds(ctx, sku, first, []string{"released"}); n != 1 || err != nil {
		t.Fatalf("release of a hold: got %d units released, error %v, want 1", n, err)
	}
	check.Must(t, c.Failover(ctx, master, replica))
	g.ProbeMasters(ctx) // notices that the master is gone, but not which replica was promoted
	check.Eventually(t, "the new master accepts or refuses an order", func() bool {
		err = check.Err(g.Reserve(ctx, order(sku, "new", "bob")))
		var refusal *Refusal
		return err == nil || errors.As(err, &refusal)
	})
	check.Is(t, err, ErrStale)
	check.Must(t, g.BeginRebuild(ctx, sku, first))
	install(t, g, sku, first, truth{Terms: terms(1, 1), Available: 1, Buyers: map[string]int64{"ann": 0}})
	reserve(t, g, order(sku, "new", "bob"))
}
