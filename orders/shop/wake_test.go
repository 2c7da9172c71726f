package shop

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// Callers who order again as soon as they are told find the queue not yet
// tidied, and so nobody calls the keeper: it must look again by itself. With no
// resync to fall back on, an order that it overlooks is answered 202 at best.
func TestTheKeeperLooksUntilTheQueueIsEmpty(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, func(c *Config) {
			c.Keeper.ResyncEvery, c.Keeper.ReconcileEvery, c.Keeper.ReconcileHoldsEvery = time.Hour, time.Hour, time.Hour
		})
		p.put(t, kit.Sale("S", 10_000, 100))
		var wg sync.WaitGroup
		for buyer := range 20 {
			wg.Go(func() {
				for range 25 {
					placed, err := p.Place(t.Context(), Placement{Buyer: fmt.Sprint("buyer-", buyer), SKU: "S", Quantity: 1})
					if err != nil || placed.Order.Status != orders.PendingPayment {
						t.Errorf("%+v, %v", placed.Order, err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}
