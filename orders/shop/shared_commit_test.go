package shop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"flashsale/inventory"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
)

// The number of waiting buyers of a shared commit is bounded. Additional buyers are refused at
// once, without a query. The waiting buyers share a transaction.
func TestSharedCommitIsBounded(t *testing.T) {
	t.Parallel()
	const buyers = 50
	for _, limit := range []int{8, 2 * buyers} { // the second limit is the broken twin, without a bound
		t.Run(fmt.Sprint("at most ", limit), func(t *testing.T) {
			servertest.EachSQL(t, func(t *testing.T, dsn string) {
				store := bare.OpenStore(t, dsn)
				kit.PutSale(t, store, kit.Sale("S", 100, 1))
				kit.Exec(t, store.DB, "UPDATE sales SET mode = 'direct'")
				var full atomic.Int64
				answer := make(chan struct{}) // closed when the database answers
				c := newSharedCommit(store.Timeout, limit, limit, 1, func(ctx context.Context, sku string, batch []inventory.QueuedOrder) ([]orders.Decision, error) {
					<-answer
					return store.CommitDirect(ctx, sku, batch)
				})
				c.refused = &full
				var mu sync.Mutex
				var all sync.WaitGroup
				placed, refused := 0, 0
				for i := range buyers {
					all.Go(func() {
						_, err := c.place(t.Context(), "S", asked(fmt.Sprint("buyer-", i), "k", 1))
						mu.Lock()
						defer mu.Unlock()
						switch {
						case err == nil:
							placed++
						case errors.Is(err, inventory.ErrBusy):
							refused++
						default:
							t.Errorf("order of a buyer: got error %v, want none or ErrBusy", err)
						}
					})
				}
				want := max(0, buyers-limit)
				check.Eventually(t, "all buyers wait or are refused", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return c.Len() == buyers-want && refused == want
				})
				close(answer)
				all.Wait()
				if placed != buyers-want || len(kit.RowsOf(t, store.DB)) != placed || full.Load() != int64(want) {
					t.Errorf("shared commit: got %d orders placed and %d refused, want %d refused", placed, refused, want)
				}
				if bounded := placed <= 8; bounded != (limit == 8) {
					t.Errorf("shared commit: got %d orders placed at once, want at most %d", placed, limit)
				}
			})
		})
	}
}
