package shop

import (
	"testing"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// One order all the way: placed, durable, replayed, paid; another cancelled
// and its unit sold again.
func TestTheWayOfOneOrder(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, nil)
		p.put(t, kit.Sale("S", 2, 1))
		ctx := t.Context()

		first, err := p.Place(ctx, Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"})
		if err != nil || first.Replayed || first.Order.Status != orders.PendingPayment || first.Order.Amount != 1999 {
			t.Fatalf("first: %+v, %v", first, err)
		}
		again, err := p.Place(ctx, Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"})
		if err != nil || !again.Replayed || again.Order.ID != first.Order.ID {
			t.Fatalf("replay: %+v, %v", again, err)
		}
		places(t, p, Placement{Buyer: "ann", SKU: "S", Quantity: 2, Key: "k"}, inventory.ErrMismatch)
		places(t, p, Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k2"}, inventory.ErrBuyerLimit)
		pays(t, p, "ann", first.Order.ID, "ref", nil)
		second, err := p.Place(ctx, Placement{Buyer: "bob", SKU: "S", Quantity: 1})
		check.Must(t, err)
		places(t, p, Placement{Buyer: "eve", SKU: "S", Quantity: 1}, inventory.ErrSoldOut)
		cancels(t, p, "bob", second.Order.ID, nil)
		check.Eventually(t, "the unit is sold again", func() bool {
			_, err := p.Place(ctx, Placement{Buyer: "eve", SKU: "S", Quantity: 1})
			return err == nil
		})
		p.settledAt(t, 2, 0, 1)
	})
}
