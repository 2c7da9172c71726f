package shop

import (
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// voids calls Void for orders of S, and fails the test unless n orders are voided.
func (p *shop) voids(t testing.TB, n int, ids ...string) {
	t.Helper()
	// A repetition after an unknown outcome finds the orders already voided.
	v, err := untilKnown(t, func() (int, error) {
		v, err := p.Void(t.Context(), "S", ids, "fraud")
		already := 0
		for _, s := range v.Skipped {
			if s.Why == "already_voided" {
				already++
			}
		}
		return len(v.Voided) + already, err
	})
	if err != nil || v != n {
		t.Errorf("void of %v: got %d orders, error %v, want %d", ids, v, err, n)
	}
}

// A node takes paid orders of a sold-out sale back, one of them paid late. Another node keeps the
// sale. The payments stay refused, and the units are sold again once, also to the same buyers.
func TestVoidedUnitsAreSoldAgain(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		woken := func(c *Config) { // no resync finds the announcement of a rebuild
			quick(c)
			c.Keeper.ResyncEvery, c.Keeper.ReconcileEvery, c.Keeper.ReconcileHoldsEvery = time.Hour, time.Hour, time.Hour
		}
		nodes := []*shop{open(t, s, woken), open(t, s, woken)}
		p := nodes[0]
		p.put(t, kit.Sale("S", 5, 2))
		late := p.expired(t, "bob", 1)
		pays(t, p, "bob", late, "p-late", nil)
		ann := places(t, p, Placement{Buyer: "ann", SKU: "S", Quantity: 2, Key: "a"}, nil).Order.ID
		eve := places(t, p, Placement{Buyer: "eve", SKU: "S", Quantity: 2, Key: "e"}, nil).Order.ID
		pays(t, p, "ann", ann, "p-ann", nil)
		places(t, p, Placement{Buyer: "joe", SKU: "S", Quantity: 1, Key: "j"}, inventory.ErrSoldOut)
		for i, node := range nodes { // one of them is not the keeper
			node.voids(t, []int{1, 2}[i], []string{ann, late}[i], "junk", ann, eve)
		}
		for range 2 {
			pays(t, p, "ann", ann, "p-ann", orders.ErrOrderClosed, orders.Cancelled)
			pays(t, p, "bob", late, "p-late", orders.ErrOrderClosed, orders.Cancelled)
			pays(t, p, "ann", ann, "another", orders.ErrOrderClosed, orders.Cancelled)
		}
		cancels(t, p, "ann", ann, nil)
		p.settledAt(t, 2, 3, 0)
		want := []string{"ann another cancelled", "ann p-ann fraud", "bob p-late fraud"}
		if got := refundsOf(t, p.store); !kit.SameInAnyOrder(got, want) {
			t.Errorf("refund claims: got %q, want %q", got, want)
		}
		check.Eventually(t, "both nodes sell the units", func() bool { // a node may still remember "sold out"
			_, err := nodes[1].Place(t.Context(), Placement{Buyer: "ann", SKU: "S", Quantity: 2, Key: "again"})
			return err == nil
		})
		places(t, p, Placement{Buyer: "joe", SKU: "S", Quantity: 1, Key: "j"}, nil)
		for _, node := range nodes {
			places(t, node, Placement{Buyer: "tom", SKU: "S", Quantity: 1, Key: "t"}, inventory.ErrSoldOut)
		}
		if o := places(t, p, Placement{Buyer: "ann", SKU: "S", Quantity: 2, Key: "a"}, nil).Order; o.ID != ann || o.Status != orders.Cancelled {
			t.Errorf("replay of a voided order: got %+v, want the order, cancelled", o)
		}
		p.settledAt(t, 5, 0, 0)
	})
}
