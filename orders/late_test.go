package orders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// refundsOf are all refunds, as "buyer ref reason", in their order.
func refundsOf(t testing.TB, store *Store) []string {
	t.Helper()
	rows, next, err := store.Refunds(t.Context(), 1000, "")
	if err != nil || next != "" {
		t.Fatal(err, next)
	}
	all := []string{}
	for _, r := range rows {
		all = append(all, r.Buyer+" "+r.PaymentRef+" "+r.Reason)
	}
	return all
}

// expired places an order of buyer, lets it expire and its units come back.
func (p *shop) expired(t testing.TB, buyer string, quantity int64) string {
	t.Helper()
	var placed Placed
	eventually(t, buyer+" gets an order", func() (ok bool) {
		var err error
		placed, err = p.Place(t.Context(), Placement{Buyer: buyer, SKU: "S", Quantity: quantity})
		if err != nil && !errors.Is(err, inventory.ErrSoldOut) { // as it may be remembered for a moment
			t.Fatal(err)
		}
		return err == nil && placed.Order.Status == PendingPayment
	})
	id := placed.Order.ID
	overdue(t, p.store, id)
	eventually(t, "its units are back", func() bool {
		o, err := p.store.OrderOf(t.Context(), buyer, id)
		return err == nil && o.Status == Expired && o.RestoredAt != nil
	})
	return id
}

func quick(c *Config) { c.SweepEvery = 5 * time.Millisecond }

// A payment after the order expired takes the units anew: the order is paid,
// once, its hold is dropped and the buyer's count stays.
func TestLatePayment(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, quick)
		p.put(t, sale("S", 5, 2))
		id, ctx := p.expired(t, "ann", 2), t.Context()
		for range 2 { // the second is a repetition
			o, err := p.Pay(ctx, "ann", id, "late")
			if err != nil || o.ID != id || o.Status != Paid || *o.PaymentRef != "late" || o.PaidAt == nil || o.ClosedAt != nil {
				t.Fatalf("%+v, %v", o, err)
			}
		}
		if _, err := p.Pay(ctx, "ann", id, "another"); !errors.Is(err, ErrAlreadyPaid) {
			t.Errorf("another payment: %v", err)
		}
		if _, err := p.Pay(ctx, "eve", id, "late"); !errors.Is(err, ErrNotFound) {
			t.Errorf("somebody else's: %v", err)
		}
		if _, err := p.Cancel(ctx, "ann", id); !errors.Is(err, ErrAlreadyPaid) {
			t.Errorf("cancel: %v", err)
		}
		if _, err := p.Place(ctx, Placement{Buyer: "ann", SKU: "S", Quantity: 1}); !errors.Is(err, inventory.ErrBuyerLimit) {
			t.Errorf("one more for the same buyer: %v", err)
		}
		p.dropped(t)
		if a := p.settled(t, "S"); a.Paid != 2 || a.Sold != 2 || a.Available != 3 {
			t.Errorf("audit: %+v", a)
		}
		if got := refundsOf(t, p.store); len(got) > 0 {
			t.Errorf("refunds: %q", got)
		}
		// What the gate forgets, the database knows.
		if _, err := p.Rebuild(ctx, "S"); err != nil {
			t.Fatal(err)
		}
		if a := p.settled(t, "S"); a.Paid != 2 || a.Available != 3 {
			t.Errorf("audit after a rebuild: %+v", a)
		}
		if _, err := p.Place(ctx, Placement{Buyer: "ann", SKU: "S", Quantity: 1}); !errors.Is(err, inventory.ErrBuyerLimit) {
			t.Errorf("one more after a rebuild: %v", err)
		}
	})
}

// dropped waits until no hold is left at the gate.
func (p *shop) dropped(t testing.TB) {
	t.Helper()
	eventually(t, "all holds are dropped", func() bool {
		view, err := p.gate.Look(t.Context(), "S")
		return err == nil && view.Holds == 0
	})
}

// What no longer fits is refused and refunded, and its reference stays refused
// when units come back; another payment of the order can have them then.
func TestLatePaymentThatDoesNotFit(t *testing.T) {
	type step func(t *testing.T, p *shop, id string)
	buys := func(buyer string, quantity int64) step {
		return func(t *testing.T, p *shop, _ string) {
			if _, err := p.Place(t.Context(), Placement{Buyer: buyer, SKU: "S", Quantity: quantity, Key: "then"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	returns := func(buyer string) step {
		return func(t *testing.T, p *shop, _ string) {
			o, err := p.store.OrderByKey(t.Context(), "S", buyer, "then")
			if err != nil {
				t.Fatal(err)
			}
			if _, err = p.Cancel(t.Context(), buyer, o.ID); err != nil {
				t.Fatal(err)
			}
			p.settled(t, "S")
		}
	}
	terms := func(change func(*Sale)) step {
		return func(t *testing.T, p *shop, _ string) {
			s := sale("S", 3, 2)
			change(&s)
			p.put(t, s)
		}
	}
	for reason, test := range map[string]struct{ before, after step }{
		"sold_out":    {buys("bob", 2), returns("bob")},
		"buyer_limit": {buys("ann", 1), returns("ann")},
		"closed": {terms(func(s *Sale) { s.ClosesAt = s.OpensAt.Add(time.Minute) }),
			terms(func(*Sale) {})},
		"not_open": {terms(func(s *Sale) { s.OpensAt = s.ClosesAt.Add(-time.Minute) }),
			terms(func(*Sale) {})},
	} {
		t.Run(reason, func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Stores) {
				p := open(t, s, quick)
				p.put(t, sale("S", 3, 2))
				id, ctx := p.expired(t, "ann", 2), t.Context()
				test.before(t, p, id)
				for i := range 3 {
					if o, err := p.Pay(ctx, "ann", id, "late"); !errors.Is(err, ErrOrderClosed) || o.Status != Expired {
						t.Fatalf("%+v, %v", o, err)
					}
					if i == 0 {
						test.after(t, p, id)
					}
				}
				if got, want := refundsOf(t, p.store), []string{"ann late " + reason}; !slices.Equal(got, want) {
					t.Errorf("refunds: %q, want %q", got, want)
				}
				if o, err := p.Pay(ctx, "ann", id, "again"); err != nil || o.Status != Paid {
					t.Errorf("another payment: %+v, %v", o, err)
				}
				if _, err := p.Pay(ctx, "ann", id, "late"); !errors.Is(err, ErrOrderClosed) {
					t.Errorf("the refunded one, once the order is paid: %v", err)
				}
				if a := p.settled(t, "S"); a.Sold != 2 || a.Available != 1 {
					t.Errorf("audit: %+v", a)
				}
				p.dropped(t)
			})
		})
	}
}

// A payment of an order that was cancelled or rejected is owed.
func TestPaymentOfAClosedOrderIsRefunded(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := build(t, s, nil) // it takes neither gate nor keeper
		store, ids := p.store, []string(nil)
		_, ids = stocked(t, s.SQL, 2)
		ctx := t.Context()
		if _, err := store.Cancel(ctx, "buyer-0", ids[0]); err != nil {
			t.Fatal(err)
		}
		exec(t, store, "UPDATE orders SET status = ?, reason = 'sold_out' WHERE id = ?", Rejected, ids[1])
		for range 2 {
			for i, id := range ids {
				// The same reference for two orders: both are owed.
				if _, err := p.Pay(ctx, fmt.Sprint("buyer-", i), id, "ref"); !errors.Is(err, ErrOrderClosed) {
					t.Errorf("pay %d: %v", i, err)
				}
			}
		}
		if got, want := refundsOf(t, store), []string{"buyer-0 ref cancelled", "buyer-1 ref rejected"}; !slices.Equal(got, want) {
			t.Errorf("refunds: %q, want %q", got, want)
		}
		rows, _, err := store.Refunds(ctx, 1, "")
		now := clockOf(t, store)
		if r := rows[0]; err != nil || r.OrderID != ids[0] || r.SKU != "S" || r.Currency != "EUR" || now.Sub(r.CreatedAt).Abs() > time.Minute {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// Where gate or keeper are away, the payer hears so within the wait. A hold
// that the gate has granted meanwhile goes back, whenever a keeper comes.
func TestLatePaymentWithoutAnswer(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := openBare(t, s, sale("S", 5, 3))
		p := New(Config{Store: b.store, Gate: b.gate, Redis: b.rdb, Log: quiet(t), Wait: 50 * time.Millisecond})
		refuse := func(id, ref string) {
			t.Helper()
			if o, err := p.Pay(t.Context(), "ann", id, ref); !errors.Is(err, ErrOrderClosed) || o.Status != Expired {
				t.Errorf("%s: %+v, %v", ref, o, err)
			}
		}
		id := b.reserve(t, "ann", "", 2)
		b.keeper(t, "S").finish(t)
		overdue(t, b.store, id)
		refuse(id, "1-early") // nobody has given the units back yet
		b.keeper(t, "S").finish(t)
		refuse(id, "2-queued") // nobody takes it off the queue
		if len(b.queue(t)) != 1 {
			t.Errorf("queue: %+v", b.queue(t))
		}
		b.keeper(t, "S").finish(t)
		if err := b.rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		refuse(id, "3-no-gate")
		b.keeper(t, "S").finish(t)
		want := []string{"ann 1-early not_restored", "ann 2-queued unavailable", "ann 3-no-gate unavailable"}
		if got := refundsOf(t, b.store); !slices.Equal(got, want) {
			t.Errorf("refunds: %q", got)
		}
		if wrong := b.wrongWithLate(t, map[string]bool{"1-early": true, "2-queued": true, "3-no-gate": true}); len(wrong) > 0 {
			t.Error(wrong)
		}
		if a := b.audit(t); a.Sold != 0 || a.Available != 5 {
			t.Errorf("audit: %+v", a)
		}
	})
}

// late has the gate let a late payment in, as a node does that then dies.
func (b *bare) late(t testing.TB, order, ref string) (hold string) {
	t.Helper()
	o := b.rows(t)[order]
	hold = uuid.Must(uuid.NewV7()).String()
	r, err := b.gate.Reserve(t.Context(), inventory.Request{
		OrderID: hold, SKU: "S", Buyer: o.Buyer, Quantity: o.Quantity, Key: latePayment{order, ref}.key(), Node: "dead",
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.OrderID
}

// wrongWithLate names what is not as it must be once all payments of a sale
// are settled. Each ref must have exactly one outcome: a paid order or a refund.
func (b *bare) wrongWithLate(t testing.TB, refs map[string]bool) (wrong []string) {
	t.Helper()
	rows, outcomes, units, pending := b.rows(t), map[string]int{}, map[string]int64{}, int64(0)
	var sold int64
	for id, o := range rows {
		if o.Status == Paid {
			outcomes[*o.PaymentRef]++
		}
		if o.Status == PendingPayment {
			pending++
		} else if o.RestoredAt == nil {
			wrong = append(wrong, fmt.Sprintf("%s is %s and not restored", id, o.Status))
		}
		if (o.Status == Paid) != (o.PaidAt != nil) || o.Status.Closed() != (o.ClosedAt != nil) {
			wrong = append(wrong, fmt.Sprintf("%s is %s, paid at %v, closed at %v", id, o.Status, o.PaidAt, o.ClosedAt))
		}
		if o.Status.Open() {
			sold += o.Quantity
			units[o.Buyer] += o.Quantity
		}
	}
	refunds, _, err := b.store.Refunds(t.Context(), 100_000, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range refunds {
		outcomes[r.PaymentRef]++
	}
	for ref := range refs {
		if outcomes[ref] != 1 {
			wrong = append(wrong, fmt.Sprintf("%s has %d outcomes", ref, outcomes[ref]))
		}
	}
	if len(outcomes) != len(refs) {
		wrong = append(wrong, fmt.Sprintf("%d payments have an outcome, of %d", len(outcomes), len(refs)))
	}
	sale, err := b.store.Sale(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if sale.Sold != sold {
		wrong = append(wrong, fmt.Sprintf("sold is %d, open orders hold %d", sale.Sold, sold))
	}
	for buyer, n := range units {
		if n > sale.PerBuyerLimit {
			wrong = append(wrong, fmt.Sprintf("%s has %d units", buyer, n))
		}
		if count, err := b.rdb.HGet(t.Context(), "sale:{S}:buyers", buyer).Int64(); err != nil || count != n {
			wrong = append(wrong, fmt.Sprintf("%s has %d units, the gate counts %d (%v)", buyer, n, count, err))
		}
	}
	if a := b.audit(t); !a.Balanced || a.Held != 0 || a.Restoring != 0 {
		wrong = append(wrong, fmt.Sprintf("audit: %+v", a))
	}
	if view, err := b.gate.Look(t.Context(), "S"); err != nil || view.Holds != pending {
		wrong = append(wrong, fmt.Sprintf("%d holds for %d pending orders (%v)", view.Holds, pending, err))
	}
	return wrong
}

// belated is a sale of 3 in which late payments are queued: one that fits, the
// same order's second one, one for which the database has no room (as after
// Redis lost data), and one over its buyer's limit.
func belated(t *testing.T, s *servers.Stores) (b *bare, refs map[string]bool, orders map[string]string) {
	t.Helper()
	b = openBare(t, s, sale("S", 8, 3))
	orders = map[string]string{}
	for _, buyer := range []string{"ann", "bob", "eve"} {
		orders[buyer] = b.reserve(t, buyer, "k", 2)
	}
	b.keeper(t, "S").finish(t)
	overdue(t, b.store, orders["ann"], orders["bob"], orders["eve"])
	if _, err := b.store.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.keeper(t, "S").finish(t)
	b.late(t, orders["ann"], "fits")
	// The gate lets in two units each that the database does not have: it is
	// told of a larger sale, and of a larger limit.
	for field, more := range map[string]int64{"available": 10, "per_buyer": 10} {
		if err := b.rdb.HIncrBy(t.Context(), "sale:{S}", field, more).Err(); err != nil {
			t.Fatal(err)
		}
	}
	b.late(t, orders["bob"], "over-limit")
	b.late(t, orders["eve"], "sold-out")
	for field, more := range map[string]int64{"available": -10, "per_buyer": -10} {
		if err := b.rdb.HIncrBy(t.Context(), "sale:{S}", field, more).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// Meanwhile bob and joe have got the others, of which the gate knows.
	now := clockOf(t, b.store)
	for buyer, n := range map[string]int64{"bob": 2, "joe": 3} {
		o := &Order{
			ID: uuid.Must(uuid.NewV7()).String(), SKU: "S", Buyer: buyer, Quantity: n, Currency: "EUR",
			Status: PendingPayment, CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		}
		if err := b.store.db.Create(o).Error; err != nil {
			t.Fatal(err)
		}
		exec(t, b.store, "UPDATE sales SET sold = sold + ?", n)
		ctx := t.Context()
		b.rdb.HSet(ctx, "sale:{S}:holds", o.ID, fmt.Sprintf("%d %d %s", n, now.UnixMilli(), buyer))
		b.rdb.HIncrBy(ctx, "sale:{S}", "available", -n)
		b.rdb.HIncrBy(ctx, "sale:{S}:buyers", buyer, n)
	}
	return b, map[string]bool{"fits": true, "over-limit": true, "sold-out": true}, orders
}

// A keeper dies, or a step fails once, before or after any of the steps of late
// payments, with nobody left who waits for them: each has one outcome, and all
// units are where they belong.
func TestLatePaymentCrash(t *testing.T) {
	want := []string{"bob over-limit buyer_limit", "eve sold-out sold_out"}
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		for i, step := range []string{"queue", "commit", "settle", "confirm", "mark", "shut", "recount", "install"} {
			for _, at := range []fault{{step: step}, {step: step, after: true}} {
				for how, strike := range map[string]func(fault) (plan, *atomic.Bool){"dies": fromThenOn, "fails": once} {
					t.Run(how+" "+at.String(), func(t *testing.T) {
						b, refs, orders := belated(t, s)
						defer b.empty(t)
						if i >= 5 {
							if _, err := b.store.AskRebuild(t.Context(), "S"); err != nil {
								t.Fatal(err)
							}
						}
						faults, struck := strike(at)
						first := keeperOf(t, faultyStore(t, b.store, faults), faultyGate{b.gate, faults}, "S")
						if err := first.run(t.Context()); !errors.Is(err, errFault) || !struck.Load() {
							t.Fatalf("it did not fail: %v", err)
						}
						b.keeper(t, "S").finish(t)
						if wrong := b.wrongWithLate(t, refs); len(wrong) > 0 {
							t.Fatal(wrong)
						}
						if got := refundsOf(t, b.store); !sameInAnyOrder(got, want) {
							t.Errorf("refunds: %q", got)
						}
						// The client, who heard nothing, asks again and hears the truth.
						p := New(Config{Store: b.store, Gate: b.gate, Redis: b.rdb, Log: quiet(t)})
						for buyer, ref := range map[string]string{"ann": "fits", "bob": "over-limit", "eve": "sold-out"} {
							o, err := p.Pay(t.Context(), buyer, orders[buyer], ref)
							if paid := buyer == "ann"; paid != (err == nil) || !paid && !errors.Is(err, ErrOrderClosed) {
								t.Errorf("%s asks again: %+v, %v", buyer, o, err)
							}
						}
					})
				}
			}
		}
	})
}

func sameInAnyOrder(got, want []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
}

// What each guard is for: without it the same check finds something.
func TestLatePaymentTwins(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, b *bare) string{
		"a refund is not recorded": func(t *testing.T, b *bare) string {
			b.keeper(t, "S").finish(t)
			exec(t, b.store, "DELETE FROM refunds WHERE payment_ref = 'sold-out'")
			return "sold-out has 0 outcomes"
		},
		"the order forgets its hold": func(t *testing.T, b *bare) string {
			k := b.keeper(t, "S")
			if _, err := k.drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			exec(t, b.store, "UPDATE orders SET hold_id = NULL")
			k.finish(t)
			return "holds for"
		},
		"the hold is given back": func(t *testing.T, b *bare) string {
			k := b.keeper(t, "S")
			verdicts, err := k.store.Commit(t.Context(), "S", k.fence, b.queue(t))
			if err != nil {
				t.Fatal(err)
			}
			for i := range verdicts {
				verdicts[i].giveBack = true
			}
			if err := k.settle(t.Context(), verdicts); err != nil {
				t.Fatal(err)
			}
			k.finish(t)
			return "the gate counts"
		},
		"taken without the limit": func(t *testing.T, b *bare) string {
			exec(t, b.store, "UPDATE sales SET per_buyer_limit = 9, total = total + 9")
			k := b.keeper(t, "S")
			if _, err := k.drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			exec(t, b.store, "UPDATE sales SET per_buyer_limit = 3")
			k.finish(t)
			return "bob has 4 units"
		},
		"paid without taking units": func(t *testing.T, b *bare) string {
			for id, o := range b.rows(t) {
				if o.Buyer == "eve" { // as by an update without the keeper
					exec(t, b.store, "UPDATE orders SET status = ?, payment_ref = 'sold-out', paid_at = closed_at, closed_at = NULL WHERE id = ?", Paid, id)
				}
			}
			b.keeper(t, "S").finish(t)
			return "sold is"
		},
		"paid before the units are back": func(t *testing.T, b *bare) string {
			k := b.keeper(t, "S")
			for id, o := range b.rows(t) {
				if o.Buyer == "ann" { // its first hold has not gone back, and does not any more
					ctx := t.Context()
					b.rdb.HSet(ctx, "sale:{S}:holds", id, "2 1 ann")
					b.rdb.HIncrBy(ctx, "sale:{S}", "available", -2)
					b.rdb.HIncrBy(ctx, "sale:{S}:buyers", "ann", 2)
				}
			}
			k.finish(t)
			return "the gate counts"
		},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Stores) {
				b, refs, _ := belated(t, s)
				says := spoil(t, b)
				if wrong := strings.Join(b.wrongWithLate(t, refs), "; "); !strings.Contains(wrong, says) {
					t.Errorf("found %q, not %q", wrong, says)
				}
			})
		})
	}
}

// The same payment, fifty times at once and on two nodes: one outcome, of which
// all are told.
func TestLatePaymentAtOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		nodes := []*shop{open(t, s, quick), open(t, s, quick)}
		p := nodes[0]
		p.put(t, sale("S", 2, 2))
		for round, total := range []int64{2, 2} {
			buyer := []string{"ann", "bob"}[round]
			if round == 1 { // sold out to ann by now
				p.put(t, sale("S", 4, 2))
			}
			id := p.expired(t, buyer, 2)
			if round == 1 {
				p.put(t, sale("S", total, 2))
			}
			var paid, closed atomic.Int64
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					switch o, err := nodes[i%2].Pay(t.Context(), buyer, id, "late"); {
					case err == nil && o.Status == Paid:
						paid.Add(1)
					case errors.Is(err, ErrOrderClosed):
						closed.Add(1)
					default:
						t.Errorf("%+v, %v", o, err)
					}
				})
			}
			all.Wait()
			if got := [2]int64{paid.Load(), closed.Load()}; got != [][2]int64{{50, 0}, {0, 50}}[round] {
				t.Errorf("%s: %d times paid, %d times closed", buyer, got[0], got[1])
			}
		}
		p.dropped(t)
		if a := p.settled(t, "S"); a.Paid != 2 || a.Available != 0 {
			t.Errorf("audit: %+v", a)
		}
		if got := refundsOf(t, p.store); !slices.Equal(got, []string{"bob late sold_out"}) {
			t.Errorf("refunds: %q", got)
		}
	})
}

// Ten thousand orders are paid in the instant in which they expire, while
// others take what comes back: each payment has one outcome, its payer was told
// which, and all units are where they belong.
func TestPaidInTheInstantOfExpiry(t *testing.T) {
	n := 10_000
	if testing.Short() || servertest.Race {
		n = 1000
	}
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := openBare(t, s, sale("S", int64(n), 2))
		now, ids := clockOf(t, b.store), make([]string, n)
		rows := make([]*Order, n)
		for i := range rows {
			ids[i] = uuid.Must(uuid.NewV7()).String()
			rows[i] = &Order{
				ID: ids[i], SKU: "S", Buyer: fmt.Sprint("buyer-", i), Quantity: 1, Currency: "EUR",
				Status: PendingPayment, CreatedAt: now, ExpiresAt: now.Add(time.Hour),
			}
		}
		if err := b.store.db.CreateInBatches(rows, 1000).Error; err != nil {
			t.Fatal(err)
		}
		exec(t, b.store, "UPDATE sales SET sold = ?", n)
		if _, err := b.store.AskRebuild(t.Context(), "S"); err != nil {
			t.Fatal(err)
		}
		p := open(t, s, func(c *Config) { c.SweepEvery, c.Wait = 2*time.Millisecond, 30*time.Second })
		eventually(t, "the gate is built", func() bool {
			view, err := p.gate.Look(t.Context(), "S")
			return err == nil && view.Holds == int64(n)
		})

		ctx, stop := context.WithCancel(t.Context())
		var rivals sync.WaitGroup
		defer rivals.Wait()
		defer stop()
		for i := range 4 {
			rivals.Go(func() {
				for k := 0; ctx.Err() == nil; k++ {
					_, err := p.Place(ctx, Placement{Buyer: fmt.Sprintf("rival-%d-%d", i, k), SKU: "S", Quantity: 1})
					if err != nil && ctx.Err() == nil {
						pause := time.NewTimer(time.Millisecond)
						<-pause.C
					}
				}
			})
		}
		// Ever so often those around the next order, some of them being paid
		// right now, are overdue from one moment to the other.
		told := make([]error, n)
		var next atomic.Int64
		var payers sync.WaitGroup
		for range 64 {
			payers.Go(func() {
				for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
					if i%50 == 25 {
						past := now.Add(-time.Second)
						if err := b.store.db.Exec("UPDATE orders SET expires_at = ? WHERE id IN ?", past, ids[i-25:i+25]).Error; err != nil {
							t.Error(err)
						}
					}
					_, told[i] = p.Pay(t.Context(), fmt.Sprint("buyer-", i), ids[i], fmt.Sprint("ref-", i))
				}
			})
		}
		payers.Wait()
		stop()
		rivals.Wait()
		a := p.settled(t, "S")
		eventually(t, "the gate has heard of all", func() bool {
			skus, err := p.store.EndedSKUs(t.Context())
			return err == nil && len(skus) == 0
		})
		p.stop()

		refs, ends := map[string]bool{}, map[string]int{}
		all := b.rows(t)
		for i, id := range ids {
			refs[fmt.Sprint("ref-", i)] = true
			o := all[id]
			end := string(o.Status)
			if o.HoldID != nil {
				end += " late"
			}
			ends[end]++
			if (told[i] == nil) != (o.Status == Paid) || told[i] != nil && !errors.Is(told[i], ErrOrderClosed) {
				t.Errorf("told %v, the order is %s", told[i], o.Status)
			}
		}
		if wrong := b.wrongWithLate(t, refs); len(wrong) > 0 {
			t.Error(wrong[:min(5, len(wrong))])
		}
		if ends["paid"] == 0 || ends["paid late"]+ends["expired"] == 0 {
			t.Error("there was no race")
		}
		t.Logf("ends: %v; audit: %+v", ends, a)
	})
}

// Where each order is sold under a lock of its own, late payments are too.
func TestLatePaymentPerOrder(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, func(c *Config) { c.PerOrder = true; quick(c) })
		p.put(t, sale("S", 3, 2))
		anns, bobs, ctx := p.expired(t, "ann", 2), p.expired(t, "bob", 2), t.Context()
		for range 2 {
			if o, err := p.Pay(ctx, "ann", anns, "a"); err != nil || o.Status != Paid {
				t.Errorf("ann: %+v, %v", o, err)
			}
			if _, err := p.Pay(ctx, "bob", bobs, "b"); !errors.Is(err, ErrOrderClosed) {
				t.Errorf("bob: %v", err)
			}
		}
		if a := p.settled(t, "S"); a.Paid != 2 || a.Available != 1 {
			t.Errorf("audit: %+v", a)
		}
		if got := refundsOf(t, p.store); !slices.Equal(got, []string{"bob b sold_out"}) {
			t.Errorf("refunds: %q", got)
		}
	})
}
