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

// The same request is sent fifty times at once to two nodes. One order is made, and all fifty
// answers are that order.
func TestFiftyEqualRequests(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		nodes := []*shop{open(t, s, nil), open(t, s, nil)}
		nodes[0].put(t, kit.Sale("S", 100, 2))
		const buyers = 10 // a row may be durable before the buyer's other requests arrive
		for n := range buyers {
			want := Placement{Buyer: fmt.Sprint("buyer-", n), SKU: "S", Quantity: 2, Key: "k"}
			var all sync.WaitGroup
			answers, errs := make([]Placed, 50), make([]error, 50)
			for i := range answers {
				all.Go(func() { answers[i], errs[i] = nodes[i%2].Place(t.Context(), want) })
			}
			all.Wait()
			first := 0
			for i, a := range answers {
				if errs[i] != nil || a.Order.Status != orders.PendingPayment || a.Order.ID != answers[0].Order.ID || a.Order.Amount != 2*1999 {
					t.Fatalf("answer %d: got %+v, error %v, want %+v", i, a.Order, errs[i], answers[0].Order)
				}
				if !a.Replayed {
					first++
				}
			}
			if first != 1 {
				t.Errorf("answers to equal requests: got %d without Replayed, want 1", first)
			}
			if rows := kit.RowsOf(t, nodes[0].store.DB); len(rows) != n+1 {
				t.Errorf("orders after equal requests: got %d rows, want %d", len(rows), n+1)
			}
		}
		nodes[0].settledAt(t, 2*buyers, 100-2*buyers)
	})
}

// A replay returns the first order after the sale has sold out or ended, after the order was
// cancelled, and after the gate has forgotten the key. A request with the same key and another
// body is refused.
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
				decided := func(what Placement) (answer Placed, err error) {
					t.Helper()
					check.Eventually(t, when, func() bool { // calls fail during a rebuild, and while the keeper moves to another node
						answer, err = node.Place(ctx, what)
						return err == nil && answer.Order.Status != orders.Reserved || err != nil && !isUnavailable(err)
					})
					return answer, err
				}
				replay, err := decided(ann)
				if err != nil || !replay.Replayed || replay.Order.ID != first.Order.ID || replay.Order.Status != status {
					t.Errorf("replay %s: got %+v, error %v, want order %s with status %s", when, replay.Order, err, first.Order.ID, status)
				}
				other := ann
				other.Quantity = 2
				if got, err := decided(other); !errors.Is(err, inventory.ErrMismatch) {
					t.Errorf("another body %s: got %+v, error %v, want %v", when, got.Order, err, inventory.ErrMismatch)
				}
			}
		}
		forget := func() {
			t.Helper()
			p.settled(t, "S")
			check.Must(t, p.rdb.Del(ctx, p.rdb.Keys(ctx, "sale:{S}*").Val()...).Err())
			check.Eventually(t, "the gate is rebuilt", func() bool {
				g, err := p.gate.Summaries(ctx, "S")
				return err == nil && g[0].Open
			})
		}
		verify("at once", orders.PendingPayment)
		forget()
		verify("after the gate forgot", orders.PendingPayment)

		for i := range 3 {
			check.Eventually(t, "the other units are sold", func() bool { // the keeper may be moving to the other node
				o, err := p.Place(ctx, Placement{Buyer: fmt.Sprint("buyer-", i), SKU: "S", Quantity: 1, Key: "k"})
				return err == nil && o.Order.Status == orders.PendingPayment
			})
		}
		places(t, p, Placement{Buyer: "eve", SKU: "S", Quantity: 1}, inventory.ErrSoldOut)
		verify("after the sale sold out", orders.PendingPayment)
		forget()
		verify("after the sale sold out and the gate forgot", orders.PendingPayment)

		cancels(t, p, "ann", first.Order.ID, nil)
		verify("after the cancellation", orders.Cancelled)
		forget()
		// One unit is available. The gate reserves it for a second order, until the keeper
		// finds the first order by its key.
		verify("after the cancellation, and the gate forgot", orders.Cancelled)
		p.settledAt(t, 3, 1)

		put.ClosesAt = kit.ClockOf(t, p.store.DB)
		p.put(t, put)
		verify("after the sale", orders.Cancelled)
	})
}

// An order that the database has rejected is refused with the reason of the rejection. Its
// replays are refused with the same reason, even if there are enough units later.
func TestRejectedOrder(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, nil)
		p.put(t, kit.Sale("S", 3, 2))
		ctx := t.Context()
		allBuy(t, p, "S", "k", 3)
		p.settled(t, "S")
		p.rdb.HIncrBy(ctx, "sale:{S}", "available", 5) // the gate has more units than the database
		ann := Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}
		places(t, p, ann, inventory.ErrSoldOut)
		p.rdb.HSet(ctx, "sale:{S}:buyers", "buyer-0", 0) // and has forgotten a buyer's units
		zero := Placement{Buyer: "buyer-0", SKU: "S", Quantity: 2, Key: "l"}
		places(t, p, zero, inventory.ErrBuyerLimit)
		check.Eventually(t, "the rejected orders are released", func() bool {
			ended, err := p.store.EndedSKUs(ctx)
			return err == nil && len(ended) == 0
		})
		check.Must(t, check.Err(p.Rebuild(ctx, "S")))
		put := kit.Sale("S", 10, 10) // enough units for both orders
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
					t.Errorf("rejected order: got error %v for pay and %v for cancel, want %v", payErr, cancelErr, orders.ErrOrderClosed)
				}
			}
		}
		p.settledAt(t, 3, 7)
	})
}

// The database has lost its last orders, by a failover or a restored backup. The units of these
// orders are available again, and their keys make new orders.
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
		check.Eventually(t, "the gate is repaired", func() bool {
			view, err := p.gate.Inspect(ctx, "S")
			return err == nil && view.Open && view.Available == 1 && view.Holds == 0
		})
		check.Eventually(t, "the key makes an order", func() bool {
			second, err := p.Place(ctx, ann)
			if err == nil && second.Order.ID == first.Order.ID {
				t.Fatalf("order with the key of a lost order: got the lost order %s, want a new order", first.Order.ID)
			}
			return err == nil && second.Order.Status == orders.PendingPayment
		})
	})
}

// Redis loses the key that contains the buyers, for example by eviction. No node refuses the
// replay of a durable order, and soon both nodes return the order.
func TestReplayAfterRedisLostTheBuyers(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		a, b, ctx := open(t, s, nil), open(t, s, nil), t.Context()
		a.put(t, kit.Sale("S", 2, 1))
		ann := Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}
		first, err := a.Place(ctx, ann)
		check.Must(t, err)
		for round := range 2 { // the second round has a gate that was rebuilt with buyers
			a.settled(t, "S")
			check.Must(t, a.rdb.Del(ctx, "sale:{S}:buyers").Err())
			_, _ = a.Place(ctx, Placement{Buyer: "joe", SKU: "S", Quantity: 1}) // in the first round, the gate may accept joe's order
			check.Eventually(t, "the order is found by its key", func() bool {
				_, _ = b.Place(ctx, Placement{Buyer: "eve", SKU: "S", Quantity: 1}) // other buyers continue to order
				for _, p := range []*shop{a, b} {
					replay, err := p.Place(ctx, ann)
					if errors.Is(err, inventory.ErrSoldOut) || errors.Is(err, inventory.ErrBuyerLimit) {
						t.Fatalf("replay of a durable order, round %d: got error %v, want no refusal", round, err)
					}
					if err != nil || replay.Order.ID != first.Order.ID {
						return false
					}
				}
				return true
			})
		}
	})
}
