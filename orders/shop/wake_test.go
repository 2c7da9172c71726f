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

// reserve.lua wakes the keeper only if the queue was empty. Callers that order again at once find
// the queue not empty, because the keeper has not acknowledged its batch yet. The keeper must
// therefore read the queue until it is empty. Resync is disabled here, so an order that the
// keeper misses would remain reserved.
func TestKeeperReadsUntilTheQueueIsEmpty(t *testing.T) {
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
						t.Errorf("order: got %+v, error %v, want %s", placed.Order, err, orders.PendingPayment)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}
