package shop

import (
	"errors"
	"fmt"
	"slices"
	"sync"
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
	"flashsale/orders/store"
)

// refundsOf returns all refund claims, as "buyer ref reason", in the order of the list.
func refundsOf(t testing.TB, st *store.Store) []string {
	t.Helper()
	rows, next, err := st.Claims(t.Context(), 1000, "")
	if err != nil || next != "" {
		t.Fatalf("refund claims: got error %v and next page %q, want neither", err, next)
	}
	all := []string{}
	for _, r := range rows {
		all = append(all, r.Buyer+" "+r.PaymentRef+" "+string(r.Reason))
	}
	return all
}

// expired places an order, makes it expire, and waits until its units are released.
func (p *shop) expired(t testing.TB, buyer string, quantity int64) string {
	t.Helper()
	var placed Placed
	check.Eventually(t, buyer+" has an order", func() (ok bool) {
		var err error
		placed, err = p.Place(t.Context(), Placement{Buyer: buyer, SKU: "S", Quantity: quantity})
		if err != nil && !errors.Is(err, inventory.ErrSoldOut) { // the node may still remember "sold out"
			t.Fatalf("order: got error %v, want none or sold out", err)
		}
		return err == nil && placed.Order.Status == orders.PendingPayment
	})
	id := placed.Order.ID
	kit.MakeOverdue(t, p.store.DB, id)
	check.Eventually(t, "the expired units are released", func() bool {
		o, err := p.store.OrderOf(t.Context(), buyer, id)
		return err == nil && o.Status == orders.Expired && o.RestoredAt != nil
	})
	return id
}

func quick(c *Config) { c.SweepEvery = 5 * time.Millisecond }

// A payment of an expired order takes the units again, under a new hold. The order is paid once,
// the hold is dropped, and the units count for the buyer's limit.
func TestLatePayment(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, quick)
		p.put(t, kit.Sale("S", 5, 2))
		id, ctx := p.expired(t, "ann", 2), t.Context()
		check.Eventually(t, "the expiry is counted", func() bool {
			n := p.Controller().Counters()
			return n.Expired.Load() == 1 && n.Released.Load() == 2
		})
		for range 2 { // the second payment repeats the first
			o, err := p.Pay(ctx, "ann", id, "late")
			if err != nil || o.ID != id || o.Status != orders.Paid || *o.PaymentRef != "late" || o.PaidAt == nil || o.ClosedAt != nil {
				t.Fatalf("late payment: got %+v, error %v, want a paid order", o, err)
			}
		}
		pays(t, p, "ann", id, "another", orders.ErrAlreadyPaid)
		pays(t, p, "eve", id, "late", orders.ErrNotFound)
		cancels(t, p, "ann", id, orders.ErrAlreadyPaid)
		places(t, p, Placement{Buyer: "ann", SKU: "S", Quantity: 1}, inventory.ErrBuyerLimit)
		p.dropped(t)
		p.settledAt(t, 2, 3, 2)
		if got := refundsOf(t, p.store); len(got) > 0 {
			t.Errorf("refund claims: got %q, want none", got)
		}
		check.Must(t, check.Err(p.Rebuild(ctx, "S")))
		p.settledAt(t, 2, 3, 2)
		places(t, p, Placement{Buyer: "ann", SKU: "S", Quantity: 1}, inventory.ErrBuyerLimit)
	})
}

// dropped waits until no hold is left at the gate.
func (p *shop) dropped(t testing.TB) {
	t.Helper()
	check.Eventually(t, "all holds are dropped", func() bool {
		view, err := p.gate.Inspect(t.Context(), "S")
		return err == nil && view.Holds == 0
	})
}

// A late payment that does not fit is refused, and a refund claim is recorded. Its reference
// stays refused even if units become available. A payment with another reference can then take
// the units.
func TestLatePaymentThatDoesNotFit(t *testing.T) {
	t.Parallel()
	type step func(t *testing.T, p *shop, id string)
	buys := func(buyer string, quantity int64) step {
		return func(t *testing.T, p *shop, _ string) {
			check.Must(t, check.Err(p.Place(t.Context(), Placement{Buyer: buyer, SKU: "S", Quantity: quantity, Key: "then"})))
		}
	}
	cancelsThat := func(buyer string) step {
		return func(t *testing.T, p *shop, _ string) {
			o, err := p.store.OrderByKey(t.Context(), "S", buyer, "then")
			check.Must(t, err)
			check.Must(t, check.Err(p.Cancel(t.Context(), buyer, o.ID)))
			p.settled(t, "S")
		}
	}
	terms := func(change func(*orders.Sale)) step {
		return func(t *testing.T, p *shop, _ string) {
			s := kit.Sale("S", 3, 2)
			change(&s)
			p.put(t, s)
		}
	}
	for reason, test := range map[string]struct{ before, after step }{
		"sold_out":    {buys("bob", 2), cancelsThat("bob")},
		"buyer_limit": {buys("ann", 1), cancelsThat("ann")},
		"closed": {terms(func(s *orders.Sale) { s.ClosesAt = s.OpensAt.Add(time.Minute) }),
			terms(func(*orders.Sale) {})},
		"not_open": {terms(func(s *orders.Sale) { s.OpensAt = s.ClosesAt.Add(-time.Minute) }),
			terms(func(*orders.Sale) {})},
	} {
		t.Run(reason, func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Stores) {
				p := open(t, s, quick)
				p.put(t, kit.Sale("S", 3, 2))
				id := p.expired(t, "ann", 2)
				test.before(t, p, id)
				for i := range 3 {
					pays(t, p, "ann", id, "late", orders.ErrOrderClosed, orders.Expired)
					if i == 0 {
						test.after(t, p, id)
					}
				}
				if got, want := refundsOf(t, p.store), []string{"ann late " + reason}; !slices.Equal(got, want) {
					t.Errorf("refund claims: got %q, want %q", got, want)
				}
				pays(t, p, "ann", id, "another", nil)
				pays(t, p, "ann", id, "late", orders.ErrOrderClosed)
				p.settledAt(t, 2, 1)
				p.dropped(t)
			})
		})
	}
}

// For a payment of a cancelled or rejected order, a refund claim is recorded.
func TestPaymentOfAClosedOrderIsRefunded(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := build(t, s, nil) // neither a gate nor a keeper is needed
		store, ids := p.store, []string(nil)
		_, ids = bare.StoreWithOrders(t, s.SQL, 2)
		ctx := t.Context()
		cancels(t, store, "buyer-0", ids[0], nil)
		kit.Exec(t, store.DB, "UPDATE orders SET status = ?, reason = 'sold_out' WHERE id = ?", orders.Rejected, ids[1])
		for range 2 {
			for i, id := range ids {
				// Two orders may have the same reference. Each gets a claim.
				pays(t, p, fmt.Sprint("buyer-", i), id, "ref", orders.ErrOrderClosed)
			}
		}
		if got, want := refundsOf(t, store), []string{"buyer-0 ref cancelled", "buyer-1 ref rejected"}; !slices.Equal(got, want) {
			t.Errorf("refund claims: got %q, want %q", got, want)
		}
		rows, _, err := store.Claims(ctx, 1, "")
		now := kit.ClockOf(t, store.DB)
		if r := rows[0]; err != nil || r.OrderID != ids[0] || r.SKU != "S" || r.Currency != "EUR" || now.Sub(r.CreatedAt).Abs() > time.Minute {
			t.Errorf("claim: got %+v, error %v, want one of now for order %s", r, err, ids[0])
		}
	})
}

// If the gate or the keeper does not answer, the payment is refused after Config.Wait. If the
// gate has accepted it nevertheless, the next keeper releases the hold.
func TestLatePaymentWithoutAnswer(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 5, 3))
		p := owning(t, New(Config{Store: b.Store, Gate: b.Gate, Redis: b.Rdb, Log: check.Log(t), Wait: 50 * time.Millisecond}))
		refused := func(id, ref string) {
			t.Helper()
			pays(t, p, "ann", id, ref, orders.ErrOrderClosed, orders.Expired)
		}
		id := b.Reserve(t, "ann", "", 2)
		b.Keeper(t, "S").Finish(t)
		kit.MakeOverdue(t, b.Store.DB, id)
		refused(id, "1-early") // the expired units are not released yet
		b.Keeper(t, "S").Finish(t)
		refused(id, "2-queued") // no keeper commits the queue
		if len(b.Queue(t)) != 1 {
			t.Errorf("queue: got %+v, want one payment", b.Queue(t))
		}
		b.Keeper(t, "S").Finish(t)
		check.Must(t, b.Rdb.FlushAll(t.Context()).Err())
		refused(id, "3-no-gate")
		b.Keeper(t, "S").Finish(t)
		want := []string{"ann 1-early not_restored", "ann 2-queued unavailable", "ann 3-no-gate unavailable"}
		if got := refundsOf(t, b.Store); !slices.Equal(got, want) {
			t.Errorf("refund claims: got %q, want %q", got, want)
		}
		kit.MustBeEmpty(t, wrongWithLate(t, b, map[string]bool{"1-early": true, "2-queued": true, "3-no-gate": true}))
		b.CheckAudit(t, 0, 5)
	})
}

// The same late payment is sent fifty times at once to two nodes. It has one outcome, and all
// answers are that outcome.
func TestLatePaymentAtOnce(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		nodes := []*shop{open(t, s, quick), open(t, s, quick)}
		p := nodes[0]
		p.put(t, kit.Sale("S", 2, 2))
		for round, total := range []int64{2, 2} {
			buyer := []string{"ann", "bob"}[round]
			if round == 1 { // ann has all units, so bob needs more
				p.put(t, kit.Sale("S", 4, 2))
			}
			id := p.expired(t, buyer, 2)
			if round == 1 {
				p.put(t, kit.Sale("S", total, 2))
			}
			var paid, closed atomic.Int64
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					o, err := untilKnown(t, func() (*orders.Order, error) { return nodes[i%2].Pay(t.Context(), buyer, id, "late") })
					switch {
					case err == nil && o.Status == orders.Paid:
						paid.Add(1)
					case errors.Is(err, orders.ErrOrderClosed):
						closed.Add(1)
					default:
						t.Errorf("late payment of %s: got %+v, error %v, want it paid or closed", buyer, o, err)
					}
				})
			}
			all.Wait()
			if got, want := [2]int64{paid.Load(), closed.Load()}, [][2]int64{{50, 0}, {0, 50}}[round]; got != want {
				t.Errorf("payments of %s: got %d paid and %d closed, want %d and %d", buyer, got[0], got[1], want[0], want[1])
			}
		}
		p.dropped(t)
		p.settledAt(t, 2, 0, 2)
		if got, want := refundsOf(t, p.store), []string{"bob late sold_out"}; !slices.Equal(got, want) {
			t.Errorf("refund claims: got %q, want %q", got, want)
		}
	})
}
