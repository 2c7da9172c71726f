package orders

import (
	"errors"
	"testing"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// A gate that has forgotten who bought refuses a replay; once it is known that
// Redis is another one, the order is found all the same, and only its own key
// finds it.
func TestReplayToAGateThatForgotTheBuyer(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, nil)
		p.put(t, sale("S", 1, 1))
		ann := Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}
		first, err := p.Place(t.Context(), ann)
		if err != nil {
			t.Fatal(err)
		}
		p.settled(t, "S")
		// The sums of both stores stay right: nothing is repaired for half a minute.
		if err := p.rdb.Del(t.Context(), "sale:{S}:holds", "sale:{S}:buyers", "sale:{S}:keys", "sale:{S}:keys:older").Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Place(t.Context(), ann); !errors.Is(err, inventory.ErrSoldOut) {
			t.Fatalf("nothing was forgotten: %v", err)
		}
		p.RedisChanged()
		again, err := p.Place(t.Context(), ann)
		if err != nil || !again.Replayed || again.Order.ID != first.Order.ID {
			t.Errorf("%+v, %v", again.Order, err)
		}
		for _, other := range []Placement{
			{Buyer: "eve", SKU: "S", Quantity: 1, Key: "k"},
			{Buyer: "ann", SKU: "S", Quantity: 1, Key: "another"},
			{Buyer: "ann", SKU: "S", Quantity: 1},
		} {
			if _, err := p.Place(t.Context(), other); !errors.Is(err, inventory.ErrSoldOut) {
				t.Errorf("%+v: %v", other, err)
			}
		}
	})
}
