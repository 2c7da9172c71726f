package orders

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// order inserts an unheld order, as any node does.
func (b *bare) order(t testing.TB, buyer, key string, quantity int64) string {
	t.Helper()
	v, err := b.store.Unheld(t.Context(), "S", []inventory.Queued{asked(buyer, key, quantity)})
	if err != nil || v[0].refused != "" {
		t.Fatalf("order of %s: %+v, %v", buyer, v, err)
	}
	return v[0].order.ID
}

// unpaid is a sale of 4 in which payments of unheld orders are queued: one that
// fits, another one of the same order, one of an order that has been cancelled
// since and one of an order that has expired since; and, as after Redis lost
// data, one that is over its buyer's limit and one for which there is no room.
func unpaid(t *testing.T, s *servers.Stores) (b *bare, refs map[string]bool, orders map[string]string) {
	t.Helper()
	b = openBare(t, s, onPayment("S", 4, 2))
	orders = map[string]string{}
	for buyer, n := range map[string]int64{"ann": 2, "bob": 1, "cid": 1, "eve": 2, "joe": 2} {
		orders[buyer] = b.order(t, buyer, "k", n)
	}
	more := func(n int64) { // the gate thinks of a larger sale and of a larger limit
		for _, field := range []string{"available", "per_buyer"} {
			if err := b.rdb.HIncrBy(t.Context(), "sale:{S}", field, n).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.late(t, orders["ann"], "fits")
	more(20)
	b.late(t, orders["ann"], "twice")
	b.late(t, orders["bob"], "cancelled")
	b.late(t, orders["cid"], "expired")
	b.late(t, b.order(t, "ann", "more", 1), "over-limit")
	b.late(t, orders["eve"], "sold-out")
	more(-20)
	if _, err := b.store.Cancel(t.Context(), "bob", orders["bob"]); err != nil {
		t.Fatal(err)
	}
	overdue(t, b.store, orders["cid"])
	if _, err := b.store.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b, map[string]bool{"fits": true, "expired": true, "cancelled": true, "over-limit": true, "sold-out": true}, orders
}

// wrongUnpaid is wrongWithLate, and what else must hold where only payments
// take units.
func (b *bare) wrongUnpaid(t testing.TB, refs map[string]bool) []string {
	wrong := b.wrongWithLate(t, refs)
	for id, o := range b.rows(t) {
		if o.Status == PendingPayment {
			wrong = append(wrong, id+" holds units unpaid")
		}
	}
	if a := b.audit(t); a.Sold != a.Paid || a.Paid > a.Total || a.Available != a.Total-a.Paid {
		wrong = append(wrong, fmt.Sprintf("paid %d of %d, sold %d, available %d", a.Paid, a.Total, a.Sold, a.Available))
	}
	return wrong
}

var unpaidRefunds = []string{"ann over-limit buyer_limit", "bob cancelled cancelled", "eve sold-out sold_out"}

// A keeper dies before or after any of the steps of payments that take units,
// with nobody left who waits for them: each has one outcome, and all units are
// where they belong.
func TestUnheldPaymentCrash(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		for i, step := range []string{"queue", "commit", "settle", "confirm", "mark", "shut", "recount", "install"} {
			for _, at := range []fault{{step: step}, {step: step, after: true}} {
				t.Run(at.String(), func(t *testing.T) {
					b, refs, orders := unpaid(t, s)
					defer b.empty(t)
					if i >= 5 {
						if _, err := b.store.AskRebuild(t.Context(), "S"); err != nil {
							t.Fatal(err)
						}
					}
					faults, struck := fromThenOn(at)
					first := keeperOf(t, faultyStore(t, b.store, faults), faultyGate{b.gate, faults}, "S")
					if err := first.run(t.Context()); !errors.Is(err, errFault) || !struck.Load() {
						t.Fatalf("it did not fail: %v", err)
					}
					b.keeper(t, "S").finish(t)
					if wrong := b.wrongUnpaid(t, refs); len(wrong) > 0 {
						t.Fatal(wrong)
					}
					if got := refundsOf(t, b.store); !sameInAnyOrder(got, unpaidRefunds) {
						t.Errorf("refunds: %q", got)
					}
					// The client, who heard nothing, asks again and hears the truth.
					p := New(Config{Store: b.store, Gate: b.gate, Redis: b.rdb, Log: quiet(t)})
					for buyer, want := range map[string]struct {
						ref string
						err error
					}{
						"ann": {"fits", nil}, "bob": {"cancelled", ErrOrderClosed}, "cid": {"expired", nil},
						"eve": {"sold-out", inventory.ErrSoldOut}, "joe": {"new", inventory.ErrSoldOut},
					} {
						if o, err := p.Pay(t.Context(), buyer, orders[buyer], want.ref); !errors.Is(err, want.err) {
							t.Errorf("%s asks again: %+v, %v", buyer, o, err)
						}
					}
					if _, err := p.Pay(t.Context(), "ann", orders["ann"], "twice"); !errors.Is(err, ErrAlreadyPaid) {
						t.Errorf("the second payment: %v", err)
					}
				})
			}
		}
	})
}

// What each guard is for: without it the same check finds something.
func TestUnheldPaymentTwins(t *testing.T) {
	pay := func(t *testing.T, b *bare, id string, sold int64) {
		exec(t, b.store, "UPDATE orders SET status = ?, payment_ref = id, paid_at = created_at WHERE id = ?", Paid, id)
		exec(t, b.store, "UPDATE sales SET sold = sold + ?", sold)
	}
	for name, twin := range map[string]struct {
		spoil func(t *testing.T, b *bare, orders map[string]string)
		says  string
	}{
		"paid without the gate": {func(t *testing.T, b *bare, orders map[string]string) {
			b.keeper(t, "S").finish(t)
			pay(t, b, orders["joe"], 0)
		}, "sold is 3, open orders hold 5"},
		"paid in the database, past the gate": {func(t *testing.T, b *bare, orders map[string]string) {
			b.keeper(t, "S").finish(t)
			exec(t, b.store, "UPDATE sales SET total = total + 1")
			pay(t, b, orders["joe"], 2)
		}, "joe has 2 units, the gate counts 0"},
		"counted at the order": {func(t *testing.T, b *bare, orders map[string]string) {
			b.keeper(t, "S").finish(t)
			exec(t, b.store, "UPDATE sales SET sold = sold + 1")
		}, "sold is 4, open orders hold 3"},
		"held at the order": {func(t *testing.T, b *bare, orders map[string]string) {
			b.keeper(t, "S").finish(t)
			b.reserve(t, "kim", "", 1)
			b.keeper(t, "S").finish(t)
		}, "holds units unpaid"},
		"a payment counted twice": {func(t *testing.T, b *bare, orders map[string]string) {
			k := b.keeper(t, "S")
			verdicts, err := k.store.Commit(t.Context(), "S", k.fence, b.queue(t)[:1])
			if err != nil || !verdicts[0].late {
				t.Fatal(verdicts, err)
			}
			exec(t, b.store, "UPDATE orders SET status = ?, restored_at = created_at, hold_id = NULL WHERE id = ?", Unheld, orders["ann"])
			k.finish(t)
		}, "sold is"},
		"an order that is closed gives back": {func(t *testing.T, b *bare, orders map[string]string) {
			b.keeper(t, "S").finish(t)
			if _, err := b.store.Cancel(t.Context(), "joe", orders["joe"]); err != nil {
				t.Fatal(err)
			}
			exec(t, b.store, "UPDATE sales SET sold = sold - 2")
		}, "sold is 1, open orders hold 3"},
		"an order that is closed waits to be given back": {func(t *testing.T, b *bare, orders map[string]string) {
			b.keeper(t, "S").finish(t)
			if _, err := b.store.Cancel(t.Context(), "joe", orders["joe"]); err != nil {
				t.Fatal(err)
			}
			exec(t, b.store, "UPDATE orders SET restored_at = NULL WHERE id = ?", orders["joe"])
		}, "is cancelled and not restored"},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Stores) {
				b, refs, orders := unpaid(t, s)
				twin.spoil(t, b, orders)
				if wrong := strings.Join(b.wrongUnpaid(t, refs), "; "); !strings.Contains(wrong, twin.says) {
					t.Errorf("found %q, not %q", wrong, twin.says)
				}
			})
		})
	}
}

// While Redis is gone payments take units past it, judged by the same code. A no
// is for good, also for the same payment in the queue of a Redis that comes back
// when there are more units. A payment that comes then goes through the gate.
func TestUnheldDirect(t *testing.T) {
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprint("the no is forgotten: ", broken), func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Stores) { payDirect(t, s, broken) })
		})
	}
}

func payDirect(t *testing.T, s *servers.Stores, broken bool) {
	b, ctx := openBare(t, s, onPayment("S", 3, 2)), t.Context()
	p := New(Config{Store: b.store, Gate: b.gate, Redis: b.rdb, Log: quiet(t)})
	ann, more, bob, eve := b.order(t, "ann", "", 2), b.order(t, "ann", "", 1), b.order(t, "bob", "", 2), b.order(t, "eve", "", 1)
	b.late(t, bob, "bob") // in the queue when Redis goes
	exec(t, b.store, "UPDATE sales SET mode = 'direct', fence = fence + 1, epoch = epoch + 1")
	if err := p.catalog.refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if placed, err := p.Place(ctx, Placement{Buyer: "kim", SKU: "S", Quantity: 1}); err != nil || placed.Order.Status != Unheld {
		t.Errorf("ordering: %+v, %v", placed.Order, err)
	}
	for range 2 {
		if o, err := p.Pay(ctx, "ann", ann, "ann"); err != nil || o.Status != Paid {
			t.Fatalf("%+v, %v", o, err)
		}
		if _, err := p.Pay(ctx, "ann", ann, "another"); !errors.Is(err, ErrAlreadyPaid) {
			t.Errorf("another payment: %v", err)
		}
		if o, err := p.Pay(ctx, "bob", bob, "bob"); !errors.Is(err, inventory.ErrSoldOut) || o.Status != Unheld {
			t.Errorf("2 of the 1 that is left: %+v, %v", o, err)
		}
		if _, err := p.Pay(ctx, "ann", more, "more"); !errors.Is(err, inventory.ErrBuyerLimit) {
			t.Errorf("beyond the limit: %v", err)
		}
	}
	if got := refundsOf(t, b.store); !sameInAnyOrder(got, []string{"bob bob sold_out", "ann more buyer_limit"}) {
		t.Errorf("refunds: %q", got)
	}
	if broken {
		exec(t, b.store, "DELETE FROM refunds")
	}
	if _, err := b.store.PutSale(ctx, onPayment("S", 9, 2)); err != nil {
		t.Fatal(err)
	}
	b.keeper(t, "S").finish(t) // the gate is back, and a node does not know yet
	v, err := b.store.Direct(ctx, "S", []inventory.Queued{{OrderID: uuid.NewString(), Buyer: "eve", Quantity: 1, Key: latePayment{eve, "eve"}.key()}})
	if !errors.Is(err, errNotDirect) {
		t.Errorf("past a gate that is open: %+v, %v", v, err)
	}
	b.late(t, eve, "eve")
	b.keeper(t, "S").finish(t)
	if o := b.rows(t)[eve]; !o.paidBy("eve") {
		t.Errorf("%+v", o)
	}
	if o := b.rows(t)[bob]; o.paidBy("bob") != broken {
		t.Errorf("paid after a no: %+v", o)
	}
	refs := map[string]bool{"ann": true, "eve": true, "bob": true, "more": true}
	if wrong := b.wrongUnpaid(t, refs); len(wrong) > 0 != broken {
		t.Error(wrong)
	}
}
