package orders

import (
	"errors"
	"testing"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// One order all the way: placed, durable, replayed, paid; another cancelled
// and its unit sold again.
func TestTheWayOfOneOrder(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, nil)
		p.put(t, sale("S", 2, 1))
		ctx := t.Context()

		first, err := p.Place(ctx, Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"})
		if err != nil || first.Replayed || first.Order.Status != PendingPayment || first.Order.Amount != 1999 {
			t.Fatalf("first: %+v, %v", first, err)
		}
		again, err := p.Place(ctx, Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"})
		if err != nil || !again.Replayed || again.Order.ID != first.Order.ID {
			t.Fatalf("replay: %+v, %v", again, err)
		}
		if _, err := p.Place(ctx, Placement{Buyer: "ann", SKU: "S", Quantity: 2, Key: "k"}); !errors.Is(err, inventory.ErrMismatch) {
			t.Fatalf("same key, other body: %v", err)
		}
		if _, err := p.Place(ctx, Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k2"}); !errors.Is(err, inventory.ErrBuyerLimit) {
			t.Fatalf("second order: %v", err)
		}
		if o, err := p.Pay(ctx, "ann", first.Order.ID, "ref"); err != nil || o.Status != Paid {
			t.Fatalf("pay: %+v, %v", o, err)
		}
		second, err := p.Place(ctx, Placement{Buyer: "bob", SKU: "S", Quantity: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Place(ctx, Placement{Buyer: "eve", SKU: "S", Quantity: 1}); !errors.Is(err, inventory.ErrSoldOut) {
			t.Fatalf("third buyer: %v", err)
		}
		if o, err := p.Cancel(ctx, "bob", second.Order.ID); err != nil || o.Status != Cancelled {
			t.Fatalf("cancel: %+v, %v", o, err)
		}
		eventually(t, "the unit is sold again", func() bool {
			_, err := p.Place(ctx, Placement{Buyer: "eve", SKU: "S", Quantity: 1})
			return err == nil
		})
		if a := p.settled(t, "S"); a.Sold != 2 || a.Paid != 1 || a.Available != 0 {
			t.Fatalf("audit: %+v", a)
		}
	})
}
