package orders

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// apart starts two nodes: one keeps the sale that it returns, orders are
// placed through the other. Before they start, change may cut what they hear.
func apart(t *testing.T, s *servers.Stores, change func(seller, keeper *shop)) (seller *shop, sku string) {
	t.Helper()
	node := func(name string) *shop {
		return build(t, s, func(c *Config) { c.Node, c.Wait = name, 5*time.Second })
	}
	seller, keeper := node("sells"), node("keeps")
	for i := 0; shouldKeep([]string{"sells", "keeps"}, sku) != "keeps"; i++ {
		sku = fmt.Sprint("S", i)
	}
	change(seller, keeper)
	keeper.start(t)
	seller.start(t)
	keeper.put(t, sale(sku, 100, 50))
	spread(t, []string{sku}, keeper, seller)
	return seller, sku
}

// A caller on another node hears of the commit by message, at once.
func TestToldAcrossNodes(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		var mu sync.Mutex
		var heard []string
		p, sku := apart(t, s, func(seller, _ *shop) {
			tell := seller.bus.told
			seller.bus.told = func(outcomes []told) {
				mu.Lock()
				for _, o := range outcomes {
					heard = append(heard, o.ID)
				}
				mu.Unlock()
				tell(outcomes)
			}
		})
		for range 10 {
			placed, err := p.Place(t.Context(), Placement{Buyer: "ann", SKU: sku, Quantity: 1})
			if err != nil || placed.Order.Status != PendingPayment || placed.Order.Amount != 1999 || placed.Order.ExpiresAt.IsZero() {
				t.Fatalf("%+v, %v", placed.Order, err)
			}
			mu.Lock()
			if !slices.Contains(heard, placed.Order.ID) {
				t.Errorf("%s was durable before the message came", placed.Order.ID)
			}
			mu.Unlock()
		}
	})
}

// The message is lost: the caller's node looks into the database by itself.
func TestToldMessageLost(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p, sku := apart(t, s, func(seller, _ *shop) { seller.bus.told = func([]told) {} })
		placed, err := p.Place(t.Context(), Placement{Buyer: "ann", SKU: sku, Quantity: 1})
		if err != nil || placed.Order.Status != PendingPayment {
			t.Fatalf("%+v, %v", placed.Order, err)
		}
		// Who does not wait for that look hears nothing: the message is lost indeed.
		p.cfg.Wait = recheckAfter / 5
		placed, err = p.Place(t.Context(), Placement{Buyer: "bob", SKU: sku, Quantity: 1})
		if err != nil || placed.Order.Status != Reserved {
			t.Errorf("%+v, %v", placed.Order, err)
		}
	})
}

// The keeper is not told that there are orders, nor that some have ended: it
// looks by itself.
func TestKeeperNotCalled(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p, sku := apart(t, s, func(_, keeper *shop) {
			keeper.bus.woken, keeper.bus.ended = func(string) {}, func(string) {}
		})
		placed, err := p.Place(t.Context(), Placement{Buyer: "ann", SKU: sku, Quantity: 1})
		if err != nil || placed.Order.Status != PendingPayment {
			t.Fatalf("%+v, %v", placed.Order, err)
		}
		if _, err := p.Cancel(t.Context(), "ann", placed.Order.ID); err != nil {
			t.Fatal(err)
		}
		if a := p.settled(t, sku); a.Available != 100 {
			t.Errorf("%+v", a)
		}
	})
}
