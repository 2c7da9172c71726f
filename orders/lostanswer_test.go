package orders

import (
	"fmt"
	"regexp"
	"sync"
	"testing"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// allBuy has so many buyers order one unit each at the same time, under the
// same key, and returns their orders. Every one of them must be told that the
// order is durable.
func allBuy(t *testing.T, p *shop, sku, key string, buyers int) map[string]*Order {
	t.Helper()
	var mu sync.Mutex
	bought := map[string]*Order{}
	var all sync.WaitGroup
	for i := range buyers {
		all.Go(func() {
			placed, err := p.Place(t.Context(), Placement{Buyer: fmt.Sprint("buyer-", i), SKU: sku, Quantity: 1, Key: key})
			if err != nil || placed.Order.Status != PendingPayment {
				t.Errorf("buyer %d: %+v, %v", i, placed.Order, err)
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

// The commit's answer is lost: the keeper finds out, every caller hears of the
// one order, and there is one row of it.
func TestCommitAnswerLost(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		lose, lost := once(fault{step: "commit", after: true})
		p := open(t, s, func(c *Config) { c.Store = faultyStore(t, c.Store, lose) })
		p.put(t, sale("S", 100, 1))
		bought := allBuy(t, p, "S", "k", 20)
		if !lost.Load() {
			t.Fatal("no answer was lost")
		}
		onlyThese(t, p, bought)
	})
}

// The same, with MySQL itself answering into a connection that is cut.
func TestCommitAnswerLostOnTheWire(t *testing.T) {
	s := servertest.Open(t, servers.KindReal)
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	wire := between(t, address.FindString(s.SQL))
	s.SQL = address.ReplaceAllString(s.SQL, wire.addr)
	p := open(t, s, nil)
	p.put(t, sale("S", 100, 1))
	commit := []byte("COMMIT")
	wire.swallow.Store(&commit)
	bought := allBuy(t, p, "S", "k", 20)
	if wire.swallowed.Load() != 1 {
		t.Fatal("no answer was lost")
	}
	onlyThese(t, p, bought)
}

// onlyThese are sold, each of them once.
func onlyThese(t *testing.T, p *shop, bought map[string]*Order) {
	t.Helper()
	if a := p.settled(t, "S"); a.Sold != int64(len(bought)) || a.Available != a.Total-a.Sold {
		t.Errorf("%d bought, audit: %+v", len(bought), a)
	}
	rows := rowsOf(t, p.store)
	if len(rows) != len(bought) {
		t.Errorf("%d rows of %d orders", len(rows), len(bought))
	}
	for id, o := range bought {
		if r, ok := rows[id]; !ok || r.Buyer != o.Buyer || r.Quantity != o.Quantity || r.Status != o.Status {
			t.Errorf("told %+v, the row is %+v", o, r)
		}
	}
}

// A keeper that takes a lost answer for a no gives units back that are sold.
func TestLostAnswerIsNotANo(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := openBare(t, s, sale("S", 3, 1))
		lose, _ := once(fault{step: "commit", after: true})
		k := keeperOf(t, faultyStore(t, b.store, lose), b.gate, "S")
		b.reserve(t, "ann", "", 1)
		batch := b.queue(t)
		if _, err := k.store.Commit(t.Context(), "S", k.fence, batch); err == nil {
			t.Fatal("the answer was not lost")
		}
		back := []inventory.Settled{{Entry: batch[0].Entry, OrderID: batch[0].OrderID, GiveBack: true}}
		if err := b.gate.Settle(t.Context(), "S", k.fence, back); err != nil {
			t.Fatal(err)
		}
		if a := b.audit(t); a.Balanced || a.Drift != -1 {
			t.Errorf("the audit does not see it: %+v", a)
		}
	})
}
