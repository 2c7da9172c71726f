package shop

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
)

// ends calls EndSale, and ends the test after an error.
func (p *shop) ends(t testing.TB, sku string) orders.Offer {
	t.Helper()
	offer, err := untilKnown(t, func() (orders.Offer, error) { return p.EndSale(t.Context(), sku) })
	check.Must(t, err)
	return offer
}

// After a sale has ended, every node refuses its orders. Accepted orders can still be paid.
func TestEndSale(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		a, b := open(t, s, nil), open(t, s, nil)
		for sku, later := range map[string]func(*orders.Sale){
			"open":      func(*orders.Sale) {},
			"payment":   func(put *orders.Sale) { put.ReserveOn = orders.OnPayment },
			"scheduled": func(put *orders.Sale) { put.OpensAt, put.ClosesAt = put.ClosesAt, put.ClosesAt.Add(time.Hour) },
		} {
			put := kit.Sale(sku, 10, 5)
			later(&put)
			a.put(t, put)
			ann := Placement{Buyer: "ann", SKU: sku, Quantity: 1, Key: "k"}
			var first Placed
			if sku != "scheduled" {
				check.Eventually(t, "an order of "+sku, func() bool { // b may not have read the sale yet
					var err error
					first, err = b.Place(t.Context(), ann)
					return err == nil
				})
			}
			offer := a.ends(t, sku)
			for _, p := range []*shop{a, b} {
				places(t, p, Placement{Buyer: "bob", SKU: sku, Quantity: 1}, inventory.ErrClosed)
			}
			if offer.State(offer.Now, offer.Available) != "closed" {
				t.Errorf("sale %s after its end: got %+v, want state closed", sku, offer)
			}
			if second := b.ends(t, sku); second.Version() != offer.Version() || !second.ClosesAt.Equal(offer.ClosesAt) {
				t.Errorf("second end of %s: got %+v, want %+v", sku, second, offer)
			}
			if sku == "open" {
				places(t, a, ann, nil)
				pays(t, a, "ann", first.Order.ID, "r", nil)
			}
		}
		check.Is(t, check.Err(a.EndSale(t.Context(), "unknown")), orders.ErrNotFound)
		check.Is(t, check.Err(a.EndSale(t.Context(), "ü")), orders.ErrNotFound)
	})
}

// slowClock is a Gate whose Redis has a slow clock.
type slowClock struct {
	Gate
	behind atomic.Int64 // a time.Duration
}

func (g *slowClock) OldestQueued(ctx context.Context, skus ...string) ([]time.Time, time.Time, error) {
	oldest, now, err := g.Gate.OldestQueued(ctx, skus...)
	return oldest, now.Add(-time.Duration(g.behind.Load())), err
}

// The gate closes by Redis's clock. If that clock is slow, EndSale returns ErrUnavailable until
// the gate refuses orders.
func TestEndSaleWaitsForRedisClock(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	clock := &slowClock{}
	clock.behind.Store(int64(time.Hour))
	p := open(t, s, func(c *Config) { clock.Gate, c.Gate = c.Gate, clock })
	p.put(t, kit.Sale("S", 10, 5))
	p.gateTimeout = 50 * time.Millisecond
	check.Is(t, check.Err(p.EndSale(t.Context(), "S")), orders.ErrUnavailable)
	if sale, err := p.store.Sale(t.Context(), "S"); err != nil || time.Until(sale.ClosesAt) > 0 {
		t.Errorf("sale after EndSale: got %+v, error %v, want it closed", sale, err)
	}
	clock.behind.Store(0)
	p.gateTimeout = bare.Patience
	check.OK(t, check.Err(p.EndSale(t.Context(), "S")))
}
