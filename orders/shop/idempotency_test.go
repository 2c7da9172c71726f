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
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// The same request fifty times at once, over two nodes: one order, fifty equal
// answers.
func TestFiftyEqualRequests(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		nodes := []*shop{open(t, s, nil), open(t, s, nil)}
		nodes[0].put(t, kit.Sale("S", 100, 2))
		want := Placement{Buyer: "ann", SKU: "S", Quantity: 2, Key: "k"}
		var all sync.WaitGroup
		answers, errs := make([]Placed, 50), make([]error, 50)
		for i := range answers {
			all.Go(func() { answers[i], errs[i] = nodes[i%2].Place(t.Context(), want) })
		}
		all.Wait()
		first := 0
		for i, a := range answers {
			if errs[i] != nil || a.Order.Status != orders.PendingPayment || a.Order.ID != answers[0].Order.ID || a.Order.Amount != 2*1999 {
				t.Fatalf("answer %d: %+v, %v; the first: %+v", i, a.Order, errs[i], answers[0].Order)
			}
			if !a.Replayed {
				first++
			}
		}
		if first != 1 {
			t.Errorf("%d answers say that they made the order", first)
		}
		if rows := kit.RowsOf(t, nodes[0].store.DB); len(rows) != 1 {
			t.Errorf("%d rows", len(rows))
		}
		nodes[0].settledAt(t, 2, 98)
	})
}

// A replay finds the order whatever has become of the sale, of the order, or
// of the gate's memory; another body under its key is refused.
func TestReplayFindsTheOrder(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p, q := open(t, s, brief), open(t, s, brief)
		put := kit.Sale("S", 4, 3)
		p.put(t, put)
		ctx := t.Context()
		ann := Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}
		first, err := p.Place(ctx, ann)
		check.Must(t, err)
		verify := func(when string, status orders.Status) {
			t.Helper()
			for _, node := range []*shop{p, q} {
				judged := func(what Placement) (answer Placed, err error) {
					t.Helper()
					check.Eventually(t, when, func() bool { // calls fail while the gate is rebuilt or its keeper moves to another node
						answer, err = node.Place(ctx, what)
						return err == nil && answer.Order.Status != orders.Reserved || err != nil && !isUnavailable(err)
					})
					return answer, err
				}
				again, err := judged(ann)
				if err != nil || !again.Replayed || again.Order.ID != first.Order.ID || again.Order.Status != status {
					t.Errorf("%s: %+v, %v", when, again.Order, err)
				}
				other := ann
				other.Quantity = 2
				if got, err := judged(other); !errors.Is(err, inventory.ErrMismatch) {
					t.Errorf("%s, another body: %+v, %v", when, got.Order, err)
				}
			}
		}
		forget := func() {
			t.Helper()
			p.settled(t, "S")
			check.Must(t, p.rdb.Del(ctx, p.rdb.Keys(ctx, "sale:{S}*").Val()...).Err())
			check.Eventually(t, "rebuilt", func() bool {
				g, err := p.gate.Summaries(ctx, "S")
				return err == nil && g[0].Open
			})
		}
		verify("at once", orders.PendingPayment)
		forget()
		verify("after the gate forgot", orders.PendingPayment)

		for i := range 3 {
			check.Eventually(t, "the others are sold", func() bool { // the SKU may be moving to the other node
				o, err := p.Place(ctx, Placement{Buyer: fmt.Sprint("buyer-", i), SKU: "S", Quantity: 1, Key: "k"})
				return err == nil && o.Order.Status == orders.PendingPayment
			})
		}
		places(t, p, Placement{Buyer: "eve", SKU: "S", Quantity: 1}, inventory.ErrSoldOut)
		verify("sold out", orders.PendingPayment)
		forget()
		verify("sold out, and the gate forgot", orders.PendingPayment)

		cancels(t, p, "ann", first.Order.ID, nil)
		verify("cancelled", orders.Cancelled)
		forget()
		// There is a unit again: the gate takes it for a second order, until
		// the keeper finds the first.
		verify("cancelled, and the gate forgot", orders.Cancelled)
		p.settledAt(t, 3, 1)

		put.ClosesAt = kit.ClockOf(t, p.store.DB)
		p.put(t, put)
		verify("the sale is over", orders.Cancelled)
	})
}

// An order that the database rejected answers its code, and so do replays.
func TestRejectedOrder(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, nil)
		p.put(t, kit.Sale("S", 3, 2))
		ctx := t.Context()
		allBuy(t, p, "S", "k", 3)
		p.settled(t, "S")
		p.rdb.HIncrBy(ctx, "sale:{S}", "available", 5) // the gate believes in more
		ann := Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}
		places(t, p, ann, inventory.ErrSoldOut)
		p.rdb.HSet(ctx, "sale:{S}:buyers", "buyer-0", 0) // and has forgotten a buyer's units
		zero := Placement{Buyer: "buyer-0", SKU: "S", Quantity: 2, Key: "l"}
		places(t, p, zero, inventory.ErrBuyerLimit)
		check.Eventually(t, "restored", func() bool {
			ended, err := p.store.EndedSKUs(ctx)
			return err == nil && len(ended) == 0
		})
		check.Must(t, check.Err(p.Rebuild(ctx, "S")))
		put := kit.Sale("S", 10, 10) // now there would be room
		p.put(t, put)
		for range 2 {
			places(t, p, ann, inventory.ErrSoldOut)
			places(t, p, zero, inventory.ErrBuyerLimit)
		}
		for _, o := range kit.RowsOf(t, p.store.DB) {
			if o.Status == orders.Rejected {
				_, payErr := p.Pay(ctx, o.Buyer, o.ID, "ref")
				_, cancelErr := p.Cancel(ctx, o.Buyer, o.ID)
				if !errors.Is(payErr, orders.ErrOrderClosed) || !errors.Is(cancelErr, orders.ErrOrderClosed) {
					t.Errorf("rejected: pay %v, cancel %v", payErr, cancelErr)
				}
			}
		}
		p.settledAt(t, 3, 7)
	})
}

// The database is restored without its last orders, or a failover has lost them:
// their units are free again, and so are their keys.
func TestKeyOfALostOrder(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p, ctx := open(t, s, often), t.Context()
		p.put(t, kit.Sale("S", 1, 1))
		ann := Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}
		first, err := p.Place(ctx, ann)
		check.Must(t, err)
		p.settled(t, "S")
		kit.Exec(t, p.store.DB, "DELETE FROM orders")
		kit.Exec(t, p.store.DB, "UPDATE sales SET sold = 0")
		check.Eventually(t, "the gate is mended", func() bool {
			view, err := p.gate.Inspect(ctx, "S")
			return err == nil && view.Open && view.Available == 1 && view.Holds == 0
		})
		check.Eventually(t, "the key makes an order", func() bool {
			again, err := p.Place(ctx, ann)
			if err == nil && again.Order.ID == first.Order.ID {
				t.Fatal("the key finds the order that is gone")
			}
			return err == nil && again.Order.Status == orders.PendingPayment
		})
	})
}

// Redis loses the key with the buyers, as one that evicts keys does. The replay of
// an order that is sold never hears a no, from no node, and soon hears the order.
func TestBuyersAreLost(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		a, b, ctx := open(t, s, nil), open(t, s, nil), t.Context()
		a.put(t, kit.Sale("S", 2, 1))
		ann := Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}
		first, err := a.Place(ctx, ann)
		check.Must(t, err)
		for round := range 2 { // of a gate that has let somebody in, and of one that was rebuilt with buyers
			a.settled(t, "S")
			check.Must(t, a.rdb.Del(ctx, "sale:{S}:buyers").Err())
			_, _ = a.Place(ctx, Placement{Buyer: "joe", SKU: "S", Quantity: 1}) // the first time he is let in, and the sale sold out
			check.Eventually(t, "the order is found by its key", func() bool {
				_, _ = b.Place(ctx, Placement{Buyer: "eve", SKU: "S", Quantity: 1}) // others keep coming
				for _, p := range []*shop{a, b} {
					again, err := p.Place(ctx, ann)
					if errors.Is(err, inventory.ErrSoldOut) || errors.Is(err, inventory.ErrBuyerLimit) {
						t.Fatalf("round %d: the key of a durable order hears %v", round, err)
					}
					if err != nil || again.Order.ID != first.Order.ID {
						return false
					}
				}
				return true
			})
		}
	})
}
