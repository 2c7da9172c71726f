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

// openCluster is a gate of a cluster's, as a node has it.
func openCluster(t *testing.T, c *servers.RedisCluster) (Keeping, *redis.ClusterClient) {
	t.Helper()
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr())
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true, MaxRetries: 1, DialerRetries: 1,
		PoolSize: 1000, // after so many failures to connect go-redis goes on trying beside us
	})
	t.Cleanup(func() { _ = rdb.Close() })
	g := newGate(rdb, patient)
	rdb.OnNewNode(func(n *redis.Client) { n.Options().OnConnect = g.OnConnect(n.Options().Addr) })
	return g, rdb
}

// A replica takes over that has not heard of a unit that came back. No node says
// "sold out", also one that was connected to the replica before, as go-redis is
// when it asks for the slots; nor does the gate that is made anew.
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

	check.Must(t, master.Replicated(ctx))
	check.Must(t, master.Detach(ctx, replica))
	if n, err := g.Release(ctx, sku, first, []string{"released"}); n != 1 || err != nil {
		t.Fatalf("%d units released, %v", n, err)
	}
	check.Must(t, c.Failover(ctx, master, replica))
	g.Probe(ctx) // finds out that the master is gone, and not yet who took over
	check.Eventually(t, "the new master answers", func() bool {
		err = check.Err(g.Reserve(ctx, order(sku, "new", "bob")))
		var refusal *Refusal
		return err == nil || errors.As(err, &refusal)
	})
	check.Is(t, err, ErrStale)
	check.Must(t, g.BeginRebuild(ctx, sku, first))
	install(t, g, sku, first, truth{Terms: terms(1, 1), Available: 1, Buyers: map[string]int64{"ann": 0}})
	reserve(t, g, order(sku, "new", "bob"))
}
