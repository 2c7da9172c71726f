package shop

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/loadtest/servers/wire"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
)

// allBuy places orders of one unit for that number of buyers at the same time, all with the same
// key. It returns the orders, and fails the test unless all are durable.
func allBuy(t *testing.T, p *shop, sku, key string, buyers int) map[string]*orders.Order {
	t.Helper()
	var mu sync.Mutex
	bought := map[string]*orders.Order{}
	var all sync.WaitGroup
	for i := range buyers {
		all.Go(func() {
			buyer := Placement{Buyer: fmt.Sprint("buyer-", i), SKU: sku, Quantity: 1, Key: key}
			var placed Placed
			var err error
			check.Eventually(t, "an order is accepted", func() bool { // units may be cooling down
				placed, err = p.Place(t.Context(), buyer)
				return !errors.Is(err, inventory.ErrSoldOut) && !isUnavailable(err)
			})
			if err != nil || placed.Order.Status != orders.PendingPayment {
				t.Errorf("order of buyer %d: got %+v, error %v, want %s", i, placed.Order, err, orders.PendingPayment)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			bought[placed.Order.ID] = placed.Order
		})
	}
	all.Wait()
	return bought
}

// The answer to a commit is lost. The keeper reads the outcome from the database, each
// caller receives one order, and each order has one row.
func TestCommitAnswerLost(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		lose, struck := kit.Once(kit.Fault{Step: "commit", After: true})
		p := open(t, s, func(c *Config) { c.Store = bare.FaultyStore(t, c.Store, lose) })
		onlyTheseAreSold(t, p, func() func() bool { return struck.Load })
	})
	t.Run("on the wire", func(t *testing.T) { // the connection is cut when MySQL answers
		s, w := servertest.SQLVia(t, servertest.Open(t, servers.KindReal))
		onlyTheseAreSold(t, open(t, s, nil), func() func() bool {
			lost := w.LoseAnswers(1, wire.Contains("\x03COMMIT"))
			return func() bool { return lost() == 1 }
		})
	})
}

// onlyTheseAreSold places orders while an answer is lost, and fails the test unless each order
// is sold once.
func onlyTheseAreSold(t *testing.T, p *shop, lose func() (lost func() bool)) {
	t.Helper()
	p.put(t, kit.Sale("S", 100, 1))
	lost := lose()
	bought := allBuy(t, p, "S", "k", 20)
	if !lost() {
		t.Fatal("answers: got none lost, want one")
	}
	p.settledAt(t, int64(len(bought)), 100-int64(len(bought)))
	if n := p.Controller().Counters().Repaired.Load(); n > 0 {
		t.Errorf("keeper: got %d repairs, want none", n)
	}
	rows := kit.RowsOf(t, p.store.DB)
	if len(rows) != len(bought) {
		t.Errorf("orders of the sale: got %d rows, want %d", len(rows), len(bought))
	}
	for id, o := range bought {
		if r, ok := rows[id]; !ok || r.Buyer != o.Buyer || r.Quantity != o.Quantity || r.Status != o.Status {
			t.Errorf("accepted order: got %+v in the answer and %+v as the row, want the same order", o, r)
		}
	}
}

// Broken twin: a keeper regards a lost commit answer as a failed commit, and releases units that
// are sold. The audit shows the drift.
func TestLostCommitAnswerIsNotAFailure(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 3, 1))
		lose, _ := kit.Once(kit.Fault{Step: "commit", After: true})
		k := b.Keeper(t, "S")
		b.Reserve(t, "ann", "", 1)
		batch := b.Queue(t)
		if _, err := bare.FaultyStore(t, b.Store, lose).Commit(t.Context(), "S", k.Fence(), batch); err == nil {
			t.Fatal("commit with a lost answer: got no error, want one")
		}
		check.Must(t, check.Err(b.Gate.Ack(t.Context(), "S", batch, []string{batch[0].OrderID})))
		if a := b.Audit(t); a.Balanced || a.Drift != -1 {
			t.Errorf("audit: got %+v, want a drift of -1", a)
		}
	})
}
