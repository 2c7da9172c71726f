package app

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// A rush is buyers of one sale. Everybody may hear that they are to ask again. But
// nobody may hear a no while units are left, and who was sold to never does.
type rush struct {
	t     *testing.T
	nodes []*node
	mu    sync.Mutex
	sold  map[string]answer // by buyer
	next  int               // buyer
}

func startRush(t *testing.T, s *servers.Stores, units int) *rush {
	t.Helper()
	with := func(c *Config) { c.Lease, c.Wait, c.LimitIP = 5*time.Second, time.Second, parseLimit(t, "1000/s:1000") }
	r := &rush{t: t, nodes: []*node{start(t, s, with), start(t, s, with)}, sold: map[string]answer{}}
	r.nodes[0].put("S", units, 1, 900).ok()
	return r
}

// ask has one more buyer order, the same one until they are sold to, and everybody
// who was sold to asks once more, at both nodes. It returns how many that are now.
func (r *rush) ask() int {
	r.t.Helper()
	var wg sync.WaitGroup
	for i, buyer := range append(slices.Sorted(maps.Keys(r.sold)), fmt.Sprint("buyer-", r.next)) {
		before, repeated := r.sold[buyer]
		wg.Go(func() {
			a := r.nodes[i%2].order("S", buyer)
			switch {
			case a.status == 503 || a.status == 202:
			case a.status != 201 || repeated && a.id() != before.id():
				r.t.Errorf("%s (sold to before: %t) hears %d %s", buyer, repeated, a.status, a.body)
			case !repeated:
				r.mu.Lock()
				defer r.mu.Unlock()
				r.sold[buyer] = a
				r.next++
			}
		})
	}
	wg.Wait()
	return len(r.sold)
}

// sell has buyers come until so many are sold to.
func (r *rush) sell(total int) {
	r.t.Helper()
	check.Eventually(r.t, fmt.Sprintf("%d are sold to", total), func() bool { return len(r.sold) == total || r.ask() == total || r.t.Failed() })
}

// cancel takes back an order, and returns once its unit is available and no node
// remembers that nothing is left, as each rightly does for 100 ms. A node that does
// not remember asks the gate, where two units are too many for one buyer.
func (r *rush) cancel(buyer string, available int) {
	r.t.Helper()
	r.nodes[0].cancel(buyer, r.sold[buyer].where()).is(200)
	delete(r.sold, buyer)
	r.nodes[1].audited("S", fmt.Sprintf(`"available":%d,"queued":0`, available), `"restoring":0`)
	for i, n := range r.nodes {
		check.Eventually(r.t, fmt.Sprintf("node %d has forgotten that nothing was left", i), func() bool {
			return n.send("POST", "/v1/orders", n.token("greedy", false), `{"sku":"S","quantity":2}`).code() == "buyer_limit"
		})
	}
}

// soldOut is the end: no unit is left, and none was sold twice.
func (r *rush) soldOut(units int) {
	r.t.Helper()
	check.Eventually(r.t, "there is an answer", func() bool {
		a := r.nodes[0].order("S", "late")
		if a.status == 201 {
			r.t.Errorf("more than %d units are sold", units)
		}
		return a.code() == "sold_out" || a.status == 201
	})
	r.nodes[0].audited("S", fmt.Sprintf(`"available":0,"queued":0,"sold":%d`, units), `"balanced":true`)
}

// The slot of a sale moves to another master while it is sold, key by key. An order
// in the queue is there at each step, and what comes in meanwhile waits or hears 503.
func TestClusterMovesSlot(t *testing.T) {
	t.Parallel()
	cluster := servertest.OpenRedisCluster(t, 3)
	s, w := servertest.SQLVia(t, &servers.Stores{Kind: servers.KindReal, RedisURL: cluster.URL, SQL: servertest.OpenSQL(t, servers.KindReal)})
	const units = 6
	r := startRush(t, s, units)
	r.sell(units - 2)
	held := w.HoldAll(func(sent []byte) bool {
		return bytes.Contains(bytes.ToUpper(sent), []byte("INSERT INTO ORDERS")) || bytes.Contains(sent, []byte("INSERT INTO `orders`"))
	})
	defer held.Pass()
	queued := r.nodes[0].order("S", "queued", "Prefer: respond-async").is(202)

	was, err := cluster.Owner(t.Context(), "sale:{S}")
	check.Must(t, err)
	move, err := cluster.BeginMove(t.Context(), "sale:{S}", cluster.Nodes[(slices.Index(cluster.Nodes, was)+1)%3])
	check.Must(t, err)
	for steps := 0; ; steps++ {
		r.ask()
		for _, n := range r.nodes {
			if a := n.send("GET", queued.where(), n.token("queued", false), ""); a.status != 503 && !a.has(`"status":"reserved"`) {
				t.Errorf("step %d: the queued order is %d %s", steps, a.status, a.body)
			}
		}
		keys, err := move.Keys(t.Context())
		check.Must(t, err)
		if len(keys) == 0 {
			break
		}
		check.Must(t, move.Move(t.Context(), keys[0]))
	}
	check.Must(t, move.End(t.Context()))
	held.Pass()
	var durable answer
	check.Eventually(t, "the queued order is durable", func() bool { durable = r.nodes[1].order("S", "queued"); return durable.status == 201 })
	if durable.id() != queued.id() {
		t.Errorf("queued as %s, sold as %s", queued.id(), durable.id())
	}
	r.sold["queued"] = durable
	r.sell(units)
	r.soldOut(units)
}

// A failover loses what came last: two orders, and a unit that came back. All three
// are true all the same.
func failsOver(t *testing.T, s *servers.Stores, replicated, detach, failover func(context.Context) error) {
	t.Helper()
	const units = 6
	r := startRush(t, s, units)
	r.sell(units - 2)
	r.nodes[0].audited("S", `"available":2,"queued":0`)
	check.Must(t, replicated(t.Context()))
	check.Must(t, detach(t.Context()))
	r.sell(units)
	r.cancel("buyer-1", 1)
	check.Must(t, failover(t.Context()))
	r.sell(units)
	r.soldOut(units)
}

func TestClusterFailsOver(t *testing.T) {
	t.Parallel()
	cluster := servertest.OpenRedisCluster(t, 3)
	master, err := cluster.Owner(t.Context(), "sale:{S}")
	check.Must(t, err)
	replica, err := cluster.AddReplica(t.Context(), master)
	check.Must(t, err)
	s := &servers.Stores{Kind: servers.KindReal, RedisURL: cluster.URL, SQL: servertest.OpenSQL(t, servers.KindReal)}
	failsOver(t, s,
		master.Replicated,
		func(ctx context.Context) error { return master.Detach(ctx, replica) },
		func(ctx context.Context) error { return cluster.Failover(ctx, master, replica) })
}
