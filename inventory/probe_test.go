package inventory

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// ProbeMasters reports a Redis that accepts writes, and records its replication id if INFO is
// available.
func TestProbe(t *testing.T) {
	servertest.EachRedis(t, func(t *testing.T, r *servertest.Redis) {
		rdb := servertest.Connect(t, r.URL)
		g := newGate(rdb, patient)
		name, err := g.MasterOf(t.Context(), "S")
		probed := g.ProbeMasters(t.Context())
		if err != nil || len(probed) != 1 || probed[0].Name != name || name != Standalone || probed[0].Err != nil {
			t.Fatalf("probe of one server: got master %q, error %v, result %+v, want one writable %q", name, err, probed, Standalone)
		}
		if info, err := rdb.Info(t.Context(), "replication").Result(); err == nil {
			if id := g.replID(t.Context(), "S").now; len(id) != 40 || !strings.Contains(info, "master_replid:"+id) {
				t.Errorf("replication id: got %q, want that of %s", id, info)
			}
		}
		if ttl := rdb.TTL(t.Context(), "probe:{0}").Val(); ttl <= 0 {
			t.Errorf("key of the probe: got expiry in %v, want a time above 0", ttl)
		}
	})
}

// Each master of a cluster is probed separately, under the name that MasterOf returns.
func TestProbeOfACluster(t *testing.T) {
	t.Parallel()
	c := servertest.OpenRedisCluster(t, 3)
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr())
		one := servertest.Connect(t, "redis://"+n.Addr())
		check.Must(t, one.ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true, MaxRetries: 1, DialerRetries: 1})
	defer func() { _ = rdb.Close() }()
	g := newGate(rdb, patient)
	writable := func() (names map[string]bool, ids map[string]bool) {
		names, ids = map[string]bool{}, map[string]bool{}
		for _, m := range g.ProbeMasters(check.Context(t)) {
			names[m.Name] = m.Err == nil
			if id, known := g.replIDs.Load(m.Name); known {
				ids[id.(replID).now] = true
			}
		}
		return names, ids
	}
	names, ids := writable()
	for _, addr := range addrs {
		if !names[addr] {
			t.Errorf("master %s: it is missing in the writable masters %v", addr, names)
		}
	}
	if len(names) != 3 || len(ids) != 3 {
		t.Errorf("cluster: got masters %v with ids %v, want 3 of each", names, ids)
	}
	if name, err := g.MasterOf(t.Context(), "S"); err != nil || !names[name] {
		t.Errorf("master of S: got %q, error %v, want one of %v", name, err, names)
	}
	c.Nodes[0].Kill()
	if names, _ = writable(); len(names) != 3 || names[addrs[0]] || !names[addrs[1]] || !names[addrs[2]] {
		t.Errorf("writable masters after the first was killed: got %v, want all but that one", names)
	}
}

// A Redis without memory rejects orders and probes, but accepts calls that free memory:
// Ack, ReleaseHolds and DropHolds.
func TestRedisWithoutMemory(t *testing.T) {
	r := servertest.OpenRedis(t, servers.KindReal)
	rdb := servertest.Connect(t, r.URL)
	g := newGate(rdb, patient)
	ctx := t.Context()
	open(t, g, "S", 10, 5)
	for _, id := range []string{"refused", "closed", "paid"} {
		check.Must(t, check.Err(g.Reserve(ctx, Request{OrderID: id, SKU: "S", Buyer: id, Quantity: 1, Key: "k"})))
	}
	queue, err := g.ReadQueue(ctx, "S", "", 10)
	check.Must(t, err)
	check.Must(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	if probed := g.ProbeMasters(ctx); probed[0].Err == nil {
		t.Error("probe of a Redis without memory: got no error, want one")
	}
	if _, err := g.Reserve(ctx, Request{OrderID: "new", SKU: "S", Buyer: "new", Quantity: 1}); err == nil {
		t.Error("Reserve in a Redis without memory: got no error, want one")
	}
	for step, err := range map[string]error{
		"ack":     check.Err(g.Ack(ctx, "S", queue, []string{"refused"})),
		"release": check.Err(g.ReleaseHolds(ctx, "S", first, []string{"closed"})),
		"drop":    g.DropHolds(ctx, "S", first, []string{"paid"}),
	} {
		if err != nil {
			t.Errorf("step %s in a Redis without memory: got error %v, want none", step, err)
		}
	}
	if view, err := g.Inspect(ctx, "S"); err != nil || view.Available != 9 || view.Holds != 0 || len(view.Orders) != 0 {
		t.Errorf("gate after the steps: got %+v, error %v, want 9 available, no holds and an empty queue", view, err)
	}
}
