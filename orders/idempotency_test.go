package orders

import (
	"errors"
	"sync"
	"testing"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// The same request fifty times at once, over two nodes: one order, fifty equal
// answers.
func TestFiftyEqualRequests(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		nodes := []*shop{open(t, s, nil), open(t, s, nil)}
		nodes[0].put(t, sale("S", 100, 100))
		want := Placement{Buyer: "ann", SKU: "S", Quantity: 2, Key: "k"}
		var all sync.WaitGroup
		answers, errs := make([]Placed, 50), make([]error, 50)
		for i := range answers {
			all.Go(func() { answers[i], errs[i] = nodes[i%2].Place(t.Context(), want) })
		}
		all.Wait()
		first := 0
		for i, a := range answers {
			if errs[i] != nil || a.Order.Status != PendingPayment || a.Order.ID != answers[0].Order.ID || a.Order.Amount != 2*1999 {
				t.Fatalf("answer %d: %+v, %v; the first: %+v", i, a.Order, errs[i], answers[0].Order)
			}
			if !a.Replayed {
				first++
			}
		}
		if first != 1 {
			t.Errorf("%d answers say that they made the order", first)
		}
		if rows := rowsOf(t, nodes[0].store); len(rows) != 1 {
			t.Errorf("%d rows", len(rows))
		}
		if a := nodes[0].settled(t, "S"); a.Sold != 2 || a.Available != 98 {
			t.Errorf("%+v", a)
		}
	})
}

// A replay finds the order whatever has become of the sale, of the order, or
// of the gate's memory; another body under its key is refused.
func TestReplayFindsTheOrder(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p, q := open(t, s, brief), open(t, s, brief)
		put := sale("S", 4, 3)
		p.put(t, put)
		ctx := t.Context()
		ann := Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}
		first, err := p.Place(ctx, ann)
		if err != nil {
			t.Fatal(err)
		}
		check := func(when string, status Status) {
			t.Helper()
			for _, node := range []*shop{p, q} {
				var again Placed
				eventually(t, when, func() bool { // a gate that is being rebuilt says so
					again, err = node.Place(ctx, ann)
					return err == nil || !isUnavailable(err)
				})
				if err != nil || !again.Replayed || again.Order.ID != first.Order.ID || again.Order.Status != status {
					t.Errorf("%s: %+v, %v", when, again.Order, err)
				}
				other := ann
				other.Quantity = 2
				if _, err := node.Place(ctx, other); !errors.Is(err, inventory.ErrMismatch) {
					t.Errorf("%s, with another body: %v", when, err)
				}
			}
		}
		forget := func() {
			t.Helper()
			p.settled(t, "S")
			if err := p.rdb.FlushAll(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "rebuilt", func() bool {
				g, err := p.gate.Glance(ctx, "S")
				return err == nil && g[0].Open
			})
		}
		check("at once", PendingPayment)
		forget()
		check("after the gate forgot", PendingPayment)

		allBuy(t, p, "S", "k", 3)
		if _, err := p.Place(ctx, Placement{Buyer: "eve", SKU: "S", Quantity: 1}); !errors.Is(err, inventory.ErrSoldOut) {
			t.Fatal(err)
		}
		check("sold out", PendingPayment)
		forget()
		check("sold out, and the gate forgot", PendingPayment)

		if _, err := p.Cancel(ctx, "ann", first.Order.ID); err != nil {
			t.Fatal(err)
		}
		check("cancelled", Cancelled)
		forget()
		// There is a unit again: the gate takes it for a second order, until
		// the keeper finds the first.
		check("cancelled, and the gate forgot", Cancelled)
		if a := p.settled(t, "S"); a.Sold != 3 || a.Available != 1 {
			t.Errorf("%+v", a)
		}

		put.ClosesAt = clockOf(t, p.store)
		p.put(t, put)
		check("the sale is over", Cancelled)
	})
}

// An order that the database rejected answers its code, and so do replays.
func TestRejectedOrder(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, brief)
		p.put(t, sale("S", 3, 2))
		ctx := t.Context()
		allBuy(t, p, "S", "k", 3)
		p.settled(t, "S")
		p.rdb.HIncrBy(ctx, "sale:{S}", "available", 5) // the gate believes in more
		ann := Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}
		if _, err := p.Place(ctx, ann); !errors.Is(err, inventory.ErrSoldOut) {
			t.Errorf("%v", err)
		}
		p.rdb.HSet(ctx, "sale:{S}:buyers", "buyer-0", 0) // and has forgotten a buyer's units
		zero := Placement{Buyer: "buyer-0", SKU: "S", Quantity: 2, Key: "l"}
		if _, err := p.Place(ctx, zero); !errors.Is(err, inventory.ErrBuyerLimit) {
			t.Errorf("%v", err)
		}
		eventually(t, "restored", func() bool {
			ended, err := p.store.EndedSKUs(ctx)
			return err == nil && len(ended) == 0
		})
		if _, err := p.Rebuild(ctx, "S"); err != nil {
			t.Fatal(err)
		}
		put := sale("S", 10, 10) // now there would be room
		p.put(t, put)
		for range 2 {
			if _, err := p.Place(ctx, ann); !errors.Is(err, inventory.ErrSoldOut) {
				t.Errorf("replay: %v", err)
			}
			if _, err := p.Place(ctx, zero); !errors.Is(err, inventory.ErrBuyerLimit) {
				t.Errorf("replay: %v", err)
			}
		}
		for _, o := range rowsOf(t, p.store) {
			if o.Status == Rejected {
				_, payErr := p.Pay(ctx, o.Buyer, o.ID, "ref")
				_, cancelErr := p.Cancel(ctx, o.Buyer, o.ID)
				if !errors.Is(payErr, ErrOrderClosed) || !errors.Is(cancelErr, ErrOrderClosed) {
					t.Errorf("rejected: pay %v, cancel %v", payErr, cancelErr)
				}
			}
		}
		if a := p.settled(t, "S"); a.Sold != 3 || a.Available != 7 {
			t.Errorf("%+v", a)
		}
	})
}
