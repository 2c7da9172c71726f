package shop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
)

// rival places orders of one unit until ctx ends, each with a new buyer.
func (p *shop) rival(ctx context.Context, i int) {
	for k := 0; ctx.Err() == nil; k++ {
		_, err := p.Place(ctx, Placement{Buyer: fmt.Sprintf("rival-%d-%d", i, k), SKU: "S", Quantity: 1})
		if err != nil {
			<-time.After(time.Millisecond)
		}
	}
}

// A thousand orders are paid at the moment at which they expire, while other buyers order
// the released units. Each payment has one outcome, which its payer received, and all units
// are accounted for.
func TestPaidInTheInstantOfExpiry(t *testing.T) {
	t.Parallel()
	const n = 1000
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", n, 2))
		now, ids := kit.ClockOf(t, b.Store.DB), kit.InsertPendingOrders(t, b.Store.DB, n)
		check.Must(t, check.Err(b.Store.RequestRebuild(t.Context(), "S")))
		p := open(t, s, func(c *Config) { c.SweepEvery = 2 * time.Millisecond })
		check.Eventually(t, "the gate is built", func() bool {
			view, err := p.gate.Inspect(t.Context(), "S")
			return err == nil && view.Holds == n
		})

		ctx, stop := context.WithCancel(t.Context())
		var rivals sync.WaitGroup
		defer rivals.Wait()
		defer stop()
		for i := range 4 {
			rivals.Go(func() { p.rival(ctx, i) })
		}
		// Every 50th payer makes the surrounding 50 orders overdue, while some of them are
		// being paid.
		errs := make([]error, n)
		var next atomic.Int64
		var payers sync.WaitGroup
		for range 128 {
			payers.Go(func() {
				for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
					if i%50 == 25 {
						past := now.Add(-time.Second)
						check.OK(t, b.Store.DB.Exec("UPDATE orders SET expires_at = ? WHERE id IN ?", past, ids[i-25:i+25]).Error)
					}
					_, errs[i] = untilKnown(t, func() (*orders.Order, error) {
						return p.Pay(t.Context(), fmt.Sprint("buyer-", i), ids[i], fmt.Sprint("ref-", i))
					})
				}
			})
		}
		payers.Wait()
		stop()
		rivals.Wait()
		a := p.settled(t, "S")
		check.Eventually(t, "the gate has released all closed orders", func() bool {
			skus, err := p.store.EndedSKUs(t.Context())
			return err == nil && len(skus) == 0
		})
		p.stop()

		refs, ends := map[string]bool{}, map[string]int{}
		all := b.Rows(t)
		for i, id := range ids {
			refs[fmt.Sprint("ref-", i)] = true
			o := all[id]
			end := string(o.Status)
			if o.HoldID != nil {
				end += " late"
			}
			ends[end]++
			if (errs[i] == nil) != (o.Status == orders.Paid) || errs[i] != nil && !errors.Is(errs[i], orders.ErrOrderClosed) {
				t.Errorf("payment of %s at its expiry: got error %v, but the order is %s, want paid without an error or closed with one", id, errs[i], o.Status)
			}
		}
		if wrong := wrongWithLate(t, b, refs); len(wrong) > 0 {
			t.Errorf("payments at the expiry: got %d violations, such as %q, want none", len(wrong), wrong[:min(5, len(wrong))])
		}
		if ends["paid"] == 0 || ends["paid late"]+ends["expired"] == 0 {
			t.Errorf("payments at the expiry: got outcomes %v, want both paid and expired orders", ends)
		}
		t.Logf("ends: %v; audit: %+v", ends, a)
	})
}
