package shop

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/controller"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

// placesOwn places orders through p, and fails the test if an order that p reports as durable is
// not in the database of p. It returns the number of durable orders.
func placesOwn(t *testing.T, p *shop, buyers int) (durable int) {
	t.Helper()
	placed := make([]Placed, buyers)
	var g errgroup.Group
	for i := range placed {
		g.Go(func() (err error) {
			placed[i], err = p.Place(t.Context(), Placement{Buyer: fmt.Sprint("buyer-", i), SKU: "S", Quantity: 1, Key: "k"})
			if errors.Is(err, orders.ErrUnavailable) {
				return nil
			}
			return err
		})
	}
	check.Must(t, g.Wait())
	rows := kit.RowsOf(t, p.store.DB)
	for _, q := range placed {
		if q.Order == nil || q.Order.Status == orders.Reserved {
			continue
		}
		durable++
		if _, own := rows[q.Order.ID]; !own {
			t.Errorf("order %s: got %s, want it in this database", q.Order.ID, q.Order.Status)
		}
	}
	return durable
}

// isRefusedByNoGate fails the test if p answers with a refusal of a gate that may not be its own.
func isRefusedByNoGate(t *testing.T, p *shop) {
	t.Helper()
	for _, key := range []string{"", "k"} {
		placed, err := p.Place(t.Context(), Placement{Buyer: "greedy", SKU: "S", Quantity: 3, Key: key})
		check.Is(t, err, orders.ErrUnavailable)
		if errors.Is(err, inventory.ErrBuyerLimit) {
			t.Errorf("order of too many units with key %q: got %+v, error %v, want no refusal", key, placed.Order, err)
		}
	}
}

// The nodes of a second database on one Redis stop, and their keepers take nothing. The first one
// continues, and reports the second.
func TestSecondDatabaseStops(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		a := open(t, s, nil)
		a.put(t, kit.Sale("S", 100, 2))
		b := build(t, servertest.WithOtherSQL(t, s), func(c *Config) { c.Wait = time.Second })
		kit.PutSale(t, b.store, kit.Sale("S", 100, 2))
		stopped := make(chan error, 1)
		go func() { stopped <- b.Run(t.Context()) }()
		if n := placesOwn(t, b, 3); n > 0 {
			t.Errorf("second database: got %d durable orders, want none", n)
		}
		isRefusedByNoGate(t, b)
		check.Is(t, check.Receive(t, "the second database stops", stopped), controller.ErrShared)
		check.Eventually(t, "the first database reports the second", func() bool { return a.Controller().Rival() != "" })
		if n := placesOwn(t, a, 3); n != 3 {
			t.Errorf("first database: got %d durable orders, want 3", n)
		}
		places(t, a, Placement{Buyer: "ann", SKU: "S", Quantity: 3}, inventory.ErrBuyerLimit)
		if sale, err := b.store.Sale(t.Context(), "S"); err != nil || sale.Fence != 0 {
			t.Errorf("sale of the second database: got fence %d, error %v, want no takeover", sale.Fence, err)
		}
	})
}

// If Redis forgets its owner, two databases may both own it. Then their nodes continue, report
// each other, and answer 201 only for the rows of their own database, even if one is a copy of the
// other.
func TestDatabasesThatCannotTell(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		short := func(c *Config) { c.Wait = time.Second }
		a := open(t, s, short)
		a.put(t, kit.Sale("S", 100, 2))
		placesOwn(t, a, 3)
		b := build(t, servertest.WithOtherSQL(t, s), short)
		var sales []orders.Sale
		var nodes []store.Node
		check.Must(t, a.store.DB.Find(&sales).Error)
		check.Must(t, a.store.DB.Find(&nodes, "id <> ?", store.OwnerRow).Error)
		check.Must(t, b.store.DB.Create(&sales).Error)
		check.Must(t, b.store.DB.Create(&nodes).Error)
		check.Eventually(t, "the second database has owned Redis", func() bool {
			check.Must(t, a.rdb.Del(t.Context(), controller.OwnerKey).Err())
			return b.controller.OwnRedis(t.Context()) == nil
		})
		b.start(t)
		for _, p := range []*shop{a, b} {
			check.Eventually(t, "each reports the other", func() bool { return p.Controller().Rival() != "" })
		}
		placesOwn(t, a, 6)
		placesOwn(t, b, 6)
		isRefusedByNoGate(t, a)
		isRefusedByNoGate(t, b)
		b.stop()
		check.Eventually(t, "the first database no longer reports the second", func() bool { return a.Controller().Rival() == "" })
		places(t, a, Placement{Buyer: "greedy", SKU: "S", Quantity: 3}, inventory.ErrBuyerLimit)
	})
}
