package shop

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/controller"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

// aNode starts a node with a name, so that who should keep what is the same in
// every run, and a short lease.
func aNode(t *testing.T, s *servers.Stores, name string, lease time.Duration) *shop {
	t.Helper()
	return open(t, s, func(c *Config) {
		c.Store.Node, c.Keeper.Lease, c.Log = name, lease, c.Log.With("node", name)
		c.Wait = 10 * time.Second // several nodes on one SQLite file, on a busy machine
	})
}

// manySales puts so many sales of 10 units into the database.
func manySales(t testing.TB, st *store.Store, n int) (skus []string) {
	t.Helper()
	for i := range n {
		sku := fmt.Sprintf("S%04d", i)
		skus = append(skus, sku)
		kit.Put(t, st, kit.Sale(sku, 10, 5))
	}
	return skus
}

// keptOnce tells whether each SKU is kept by exactly one of the nodes.
func keptOnce(skus []string, nodes ...*shop) bool {
	var kept []string
	for _, p := range nodes {
		kept = append(kept, p.Keepers().Kept()...)
	}
	slices.Sort(kept)
	return slices.Equal(kept, skus)
}

// spread waits until each node keeps what it should and every gate is open.
func spread(t *testing.T, skus []string, nodes ...*shop) {
	t.Helper()
	var names []string
	for _, p := range nodes {
		names = append(names, p.store.Node)
	}
	check.Eventually(t, fmt.Sprintf("spread over %v", names), func() bool {
		for _, p := range nodes {
			for _, sku := range p.Keepers().Kept() {
				if controller.ShouldKeep(names, sku) != p.store.Node {
					return false
				}
			}
		}
		summaries, err := nodes[0].gate.Summaries(t.Context(), skus...)
		return err == nil && keptOnce(skus, nodes...) &&
			!slices.ContainsFunc(summaries, func(g inventory.Summary) bool { return !g.Open })
	})
}

// sellsAll orders one unit of each SKU through each node.
func sellsAll(t *testing.T, skus []string, nodes ...*shop) {
	t.Helper()
	for _, sku := range skus {
		for _, p := range nodes {
			placed, err := p.Place(t.Context(), Placement{Buyer: "ann", SKU: sku, Quantity: 1})
			if err != nil || placed.Order.Status != orders.PendingPayment {
				t.Errorf("%s through %s: %+v, %v", sku, p.store.Node, placed.Order, err)
			}
		}
	}
}

// Each SKU has one keeper over all nodes, every node keeps its share, and an
// order of any SKU can be placed anywhere.
func TestKeepersSpread(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		skus := manySales(t, bare.OpenStore(t, s.SQL), 30)
		nodes := []*shop{aNode(t, s, "a", 2*time.Second), aNode(t, s, "b", 2*time.Second), aNode(t, s, "c", 2*time.Second)}
		spread(t, skus, nodes...)
		for _, p := range nodes {
			if n := len(p.Keepers().Kept()); n < 5 {
				t.Errorf("%s keeps %d of 30", p.store.Node, n)
			}
		}
		sellsAll(t, skus, nodes...)
	})
}

// A node that stops hands its SKUs over at once: nobody waits for a lease.
func TestStoppingNodeHandsOver(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		const lease = 20 * time.Second
		skus := manySales(t, bare.OpenStore(t, s.SQL), 30)
		a, b := aNode(t, s, "a", lease), aNode(t, s, "b", lease)
		spread(t, skus, a, b)
		moved := a.Keepers().Kept()
		stopping := time.Now()
		a.stop()
		stopped := time.Since(stopping)
		check.Eventually(t, "handed over", func() bool { return keptOnce(skus, b) })
		took := time.Since(stopping)
		t.Logf("%d SKUs handed over in %v, of which the stop took %v; the lease is %v", len(moved), took, stopped, lease)
		if took > lease/2 {
			t.Errorf("handed over after %v, with a lease of %v", took, lease)
		}
		sellsAll(t, skus, b)

		// And back, though it has only just been given away.
		a = aNode(t, s, "a", lease)
		spread(t, skus, a, b)
		b.stop()
		check.Eventually(t, "handed over again", func() bool { return keptOnce(skus, a) })
	})
}

// A node that dies lets go of nothing. Its SKUs are taken over within a lease,
// and what it still believes in changes nothing.
func TestDeadNodeIsReplaced(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		const lease = 5 * time.Second
		skus := manySales(t, bare.OpenStore(t, s.SQL), 30)
		via, wire := servertest.RedisVia(t, s)
		b, c := aNode(t, s, "b", lease), aNode(t, s, "c", lease)
		dead := aNode(t, via, "a", lease)
		spread(t, skus, b, c, dead)
		its := dead.Keepers().Kept()
		before, err := b.store.Sale(t.Context(), its[0])
		check.Must(t, err)

		died := time.Now()
		wire.Cut()
		check.Eventually(t, "taken over", func() bool { return keptOnce(skus, b, c) })
		took := time.Since(died)
		t.Logf("%d SKUs of a dead node taken over in %v; the lease is %v", len(its), took, lease)
		if took > 2*lease { // the second one is for a busy machine, where a commit may take as long
			t.Errorf("taken over after %v, with a lease of %v", took, lease)
		}
		if kept := dead.Keepers().Kept(); len(kept) > 0 {
			t.Errorf("the dead node believes to keep %v", kept)
		}
		if sale, err := b.store.Sale(t.Context(), its[0]); err != nil || sale.Fence <= before.Fence {
			t.Errorf("fence %d, of the dead %d, %v", sale.Fence, before.Fence, err)
		}
		sellsAll(t, skus, b, c)

		wire.Restore()
		spread(t, skus, b, c, dead)
		sellsAll(t, skus, dead, b, c)
	})
}
