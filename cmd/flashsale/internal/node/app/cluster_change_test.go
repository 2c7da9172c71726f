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

// A rush sends buyers of one sale to two nodes. An order may be answered 202 or 503, but it
// may not be refused while units are left. A repeated order returns the first order.
type rush struct {
	t     *testing.T
	nodes []*node
	mu    sync.Mutex
	sold  map[string]answer // accepted orders by buyer
	next  int               // number of the next buyer
}

func startRush(t *testing.T, s *servers.Stores, units int) *rush {
	t.Helper()
	with := func(c *Config) { c.Lease, c.Wait, c.LimitIP = 5*time.Second, time.Second, parseLimit(t, "1000/s:1000") }
	r := &rush{t: t, nodes: []*node{start(t, s, with), start(t, s, with)}, sold: map[string]answer{}}
	r.nodes[0].put("S", units, 1, 900).ok()
	return r
}

// ask sends the order of the next buyer and repeats all accepted orders, alternately to both
// nodes. It returns the number of accepted orders.
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
				r.t.Errorf("order of %s (accepted before: %t): got %d %s, want 201 and, if accepted before, the same order", buyer, repeated, a.status, a.body)
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

// sell sends buyers until total orders are accepted.
func (r *rush) sell(total int) {
	r.t.Helper()
	check.Eventually(r.t, fmt.Sprintf("%d accepted orders", total), func() bool { return len(r.sold) == total || r.ask() == total || r.t.Failed() })
}

// cancel cancels an order. It returns when the unit is available again and the sold-out
// memory of both nodes has expired, after 100 ms. Without that memory, an order of two units
// reaches the gate and is refused with buyer_limit.
func (r *rush) cancel(buyer string, available int) {
	r.t.Helper()
	r.nodes[0].cancel(buyer, r.sold[buyer].where()).want(200)
	delete(r.sold, buyer)
	r.nodes[1].audited("S", fmt.Sprintf(`"available":%d,"queued":0`, available), `"restoring":0`)
	for i, n := range r.nodes {
		check.Eventually(r.t, fmt.Sprintf("the sold-out memory of node %d expires", i), func() bool {
			return n.send("POST", "/v1/orders", n.token("greedy", false), `{"sku":"S","quantity":2}`).code() == "buyer_limit"
		})
	}
}

// soldOut waits until the sale is sold out and fails the test if more than units are sold.
func (r *rush) soldOut(units int) {
	r.t.Helper()
	check.Eventually(r.t, "a late order is refused with sold_out", func() bool {
		a := r.nodes[0].order("S", "late")
		if a.status == 201 {
			r.t.Errorf("sale of S: got more than %d units sold, want at most that", units)
		}
		return a.code() == "sold_out" || a.status == 201
	})
	r.nodes[0].audited("S", fmt.Sprintf(`"available":0,"queued":0,"sold":%d`, units), `"balanced":true`)
}

// The slot of a sale moves to another master, key by key, while units sell. A queued order
// is readable at each step. New orders wait or are answered 503.
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
	queued := r.nodes[0].order("S", "queued", "Prefer: respond-async").want(202)

	was, err := cluster.Owner(t.Context(), "sale:{S}")
	check.Must(t, err)
	move, err := cluster.BeginMove(t.Context(), "sale:{S}", cluster.Nodes[(slices.Index(cluster.Nodes, was)+1)%3])
	check.Must(t, err)
	for steps := 0; ; steps++ {
		r.ask()
		for _, n := range r.nodes {
			if a := n.send("GET", queued.where(), n.token("queued", false), ""); a.status != 503 && !a.has(`"status":"reserved"`) {
				t.Errorf("queued order during step %d of the slot's move: got %d %s, want status reserved or 503", steps, a.status, a.body)
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
		t.Errorf("queued order: got the id %s when queued and %s when durable, want the same id", queued.id(), durable.id())
	}
	r.sold["queued"] = durable
	r.sell(units)
	r.soldOut(units)
}

// failsOver performs a failover of Redis that loses two orders and one release. Both orders
// stay accepted, and the released unit sells once.
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
		master.WaitReplicated,
		func(ctx context.Context) error { return master.DetachReplica(ctx, replica) },
		func(ctx context.Context) error { return cluster.Failover(ctx, master, replica) })
}
