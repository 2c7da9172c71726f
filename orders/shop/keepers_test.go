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
	"flashsale/orders/lock"
	"flashsale/orders/lock/lease"
	"flashsale/orders/store"
)

// aNode starts a node with a name. The assignment of keepers depends on the names, so it is
// the same in every run.
func aNode(t *testing.T, s *servers.Stores, name string) *shop {
	t.Helper()
	return open(t, s, func(c *Config) {
		c.Store.Node, c.Log = name, c.Log.With("node", name)
	})
}

// manySales creates n sales of 10 units in the database.
func manySales(t testing.TB, st *store.Store, n int) (skus []string) {
	t.Helper()
	for i := range n {
		sku := fmt.Sprintf("S%04d", i)
		skus = append(skus, sku)
		kit.PutSale(t, st, kit.Sale(sku, 10, 5))
	}
	return skus
}

// keptOnce reports whether each SKU is kept by exactly one of the nodes.
func keptOnce(skus []string, nodes ...*shop) bool {
	var kept []string
	for _, p := range nodes {
		kept = append(kept, p.Controller().KeptSKUs()...)
	}
	slices.Sort(kept)
	return slices.Equal(kept, skus)
}

// spread waits until each SKU is kept by the node that should keep it, and every gate is open.
func spread(t *testing.T, skus []string, nodes ...*shop) {
	t.Helper()
	var names []string
	for _, p := range nodes {
		names = append(names, p.store.Node)
	}
	check.Eventually(t, fmt.Sprintf("the SKUs are spread over %v", names), func() bool {
		for _, p := range nodes {
			for _, sku := range p.Controller().KeptSKUs() {
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
			if o := places(t, p, Placement{Buyer: "ann", SKU: sku, Quantity: 1}, nil).Order; o.Status != orders.PendingPayment {
				t.Errorf("order of %s through %s: got %+v, want %s", sku, p.store.Node, o, orders.PendingPayment)
			}
		}
	}
}

// locksOf returns the values of the SKUs' locks in Redis, which contain the holders' names.
func (p *shop) locksOf(t testing.TB, skus []string) (locks []string) {
	t.Helper()
	for _, sku := range skus {
		locks = append(locks, p.rdb.Dump(t.Context(), "lock:{"+sku+"}").Val())
	}
	return locks
}

// A node that stops releases its locks, so no other node has to wait for the end of a
// lease.
func TestStoppingNodeHandsOver(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		skus := manySales(t, bare.OpenStore(t, s.SQL), 30)
		a, b := aNode(t, s, "a"), aNode(t, s, "b")
		spread(t, skus, a, b)
		moved := a.Controller().KeptSKUs()
		locks := b.locksOf(t, moved)
		a.stop()
		for i, lock := range b.locksOf(t, moved) {
			if lock == locks[i] {
				t.Errorf("lock of %s: got the one of the node that has stopped, want another", moved[i])
			}
		}
		check.Eventually(t, "b keeps all SKUs", func() bool { return keptOnce(skus, b) })
		sellsAll(t, skus, b)

		// a returns, and takes the SKUs over although it has just released them.
		a = aNode(t, s, "a")
		spread(t, skus, a, b)
		b.stop()
		check.Eventually(t, "a keeps all SKUs", func() bool { return keptOnce(skus, a) })
	})
}

// A node that is cut off from Redis cannot release its locks. When its leases have expired,
// other nodes take over its SKUs, although the node may still regard itself as their keeper.
func TestDeadNodeIsReplaced(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		skus := manySales(t, bare.OpenStore(t, s.SQL), 30)
		via, wire := servertest.RedisVia(t, s)
		b, c := aNode(t, s, "b"), aNode(t, s, "c")
		dead := open(t, via, func(c *Config) {
			c.Store.Node, c.Direct.EnterAfter = "a", 200*time.Millisecond
		})
		spread(t, skus, b, c, dead)
		lost := dead.Controller().KeptSKUs()
		before, err := b.store.Sale(t.Context(), lost[0])
		check.Must(t, err)

		wire.Cut()
		check.Eventually(t, "the node is marked as unable to write", func() bool {
			nodes, err := b.store.LiveNodes(t.Context(), bare.Patience)
			return err == nil && slices.ContainsFunc(nodes, func(n store.Node) bool { return n.ID == "a" && n.Unwritable != "" })
		})
		for _, sku := range lost { // Redis deletes a lock in this way at the end of its lease
			check.Must(t, b.rdb.Del(t.Context(), "lock:{"+sku+"}").Err())
		}
		check.Eventually(t, "the other nodes keep all SKUs", func() bool { return keptOnce(skus, b, c) })
		if sale, err := b.store.Sale(t.Context(), lost[0]); err != nil || sale.Fence <= before.Fence {
			t.Errorf("fence of the sale: got %d, error %v, want more than the dead node's %d", sale.Fence, err, before.Fence)
		}
		sellsAll(t, skus, b, c)

		wire.Restore()
		spread(t, skus, b, c, dead)
		sellsAll(t, skus, dead, b, c)
	})
}

// A node dies right after it has renewed its locks and its heartbeat. At most one lease later,
// another node keeps its SKUs. The broken twin locks them for two leases.
func TestTakenOverWithinOneLease(t *testing.T) {
	const aLease = 5 * time.Second
	for times, within := range map[time.Duration]bool{1: true, 2: false} {
		t.Run(fmt.Sprint("locked for ", times), func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				dsn, rdb := servertest.OpenSQL(t, servers.KindEmbedded), servertest.Connect(t, servertest.InTime(t).URL)
				dead, alive := bare.OpenStore(t, dsn), bare.OpenStore(t, dsn)
				dead.Node, alive.Node = "dead", "alive"
				skus := manySales(t, dead, 30)
				cfg := controller.KeeperConfig{Lease: aLease}
				locks := lock.New(rdb, lease.Config{Lease: times * cfg.LockLease()})
				for _, sku := range skus {
					check.Must(t, check.Err(locks.TryAcquire(t.Context(), "lock:{"+sku+"}")))
					check.Must(t, check.Err(dead.TakeOver(t.Context(), sku)))
				}
				check.Must(t, check.Err(dead.Heartbeat(t.Context(), dead.Node, nil, aLease)))
				died := time.Now()
				p := &shop{Service: New(Config{Store: alive, Gate: inventory.KeeperGate{Gate: inventory.New(rdb, inventory.Config{})}, Redis: rdb, Log: check.Log(t), Keeper: cfg})}
				p.start(t)
				check.Eventually(t, "the other node keeps all SKUs", func() bool { return keptOnce(skus, p) })
				if took := time.Since(died); took <= aLease != within {
					t.Errorf("takeover: got it after %v, want within a lease of %v: %t", took, aLease, within)
				}
			})
		})
	}
}

// A keeper is fenced off while it holds the lock. It releases the lock, and the SKU gets a
// keeper with a new fence.
func TestFencedKeeperIsReplaced(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, nil)
		p.put(t, kit.Sale("S", 10, 1))
		kit.Exec(t, p.store.DB, "UPDATE sales SET fence = fence + 1")
		check.Eventually(t, "an order is durable", func() bool {
			placed, err := p.Place(t.Context(), Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"})
			return err == nil && placed.Order.Status == orders.PendingPayment
		})
	})
}
