package shop

import (
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
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

// refundsOf are all refunds, as "buyer ref reason", in their order.
func refundsOf(t testing.TB, st *store.Store) []string {
	t.Helper()
	rows, next, err := st.Claims(t.Context(), 1000, "")
	if err != nil || next != "" {
		t.Fatal(err, next)
	}
	all := []string{}
	for _, r := range rows {
		all = append(all, r.Buyer+" "+r.PaymentRef+" "+string(r.Reason))
	}
	return all
}

// expired places an order of buyer, lets it expire and its units come back.
func (p *shop) expired(t testing.TB, buyer string, quantity int64) string {
	t.Helper()
	var placed Placed
	check.Eventually(t, buyer+" gets an order", func() (ok bool) {
		var err error
		placed, err = p.Place(t.Context(), Placement{Buyer: buyer, SKU: "S", Quantity: quantity})
		if err != nil && !errors.Is(err, inventory.ErrSoldOut) { // as it may be remembered for a moment
			t.Fatal(err)
		}
		return err == nil && placed.Order.Status == orders.PendingPayment
	})
	id := placed.Order.ID
	kit.Overdue(t, p.store.DB, id)
	check.Eventually(t, "its units are back", func() bool {
		o, err := p.store.OrderOf(t.Context(), buyer, id)
		return err == nil && o.Status == orders.Expired && o.RestoredAt != nil
	})
	return id
}

func quick(c *Config) { c.SweepEvery = 5 * time.Millisecond }

// A payment after the order expired takes the units anew: the order is paid,
// once, its hold is dropped and the buyer's count stays.
func TestLatePayment(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, quick)
		p.put(t, kit.Sale("S", 5, 2))
		id, ctx := p.expired(t, "ann", 2), t.Context()
		check.Eventually(t, "the expiry is counted", func() bool {
			n := p.Keepers().Counters()
			return n.Expired.Load() == 1 && n.Released.Load() == 2
		})
		for range 2 { // the second is a repetition
			o, err := p.Pay(ctx, "ann", id, "late")
			if err != nil || o.ID != id || o.Status != orders.Paid || *o.PaymentRef != "late" || o.PaidAt == nil || o.ClosedAt != nil {
				t.Fatalf("%+v, %v", o, err)
			}
		}
		pays(t, p, "ann", id, "another", orders.ErrAlreadyPaid)
		pays(t, p, "eve", id, "late", orders.ErrNotFound)
		cancels(t, p, "ann", id, orders.ErrAlreadyPaid)
		places(t, p, Placement{Buyer: "ann", SKU: "S", Quantity: 1}, inventory.ErrBuyerLimit)
		p.dropped(t)
		p.settledAt(t, 2, 3, 2)
		if got := refundsOf(t, p.store); len(got) > 0 {
			t.Errorf("refunds: %q", got)
		}
		// What the gate forgets, the database knows.
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

// What no longer fits is refused and refunded, and its reference stays refused
// when units come back; another payment of the order can have them then.
func TestLatePaymentThatDoesNotFit(t *testing.T) {
	t.Parallel()
	type step func(t *testing.T, p *shop, id string)
	buys := func(buyer string, quantity int64) step {
		return func(t *testing.T, p *shop, _ string) {
			check.Must(t, check.Err(p.Place(t.Context(), Placement{Buyer: buyer, SKU: "S", Quantity: quantity, Key: "then"})))
		}
	}
	returns := func(buyer string) step {
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
		"sold_out":    {buys("bob", 2), returns("bob")},
		"buyer_limit": {buys("ann", 1), returns("ann")},
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
					t.Errorf("refunds: %q, want %q", got, want)
				}
				pays(t, p, "ann", id, "again", nil)
				pays(t, p, "ann", id, "late", orders.ErrOrderClosed)
				p.settledAt(t, 2, 1)
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
		_, ids = bare.Stocked(t, s.SQL, 2)
		ctx := t.Context()
		cancels(t, store, "buyer-0", ids[0], nil)
		kit.Exec(t, store.DB, "UPDATE orders SET status = ?, reason = 'sold_out' WHERE id = ?", orders.Rejected, ids[1])
		for range 2 {
			for i, id := range ids {
				// The same reference for two orders: both are owed.
				pays(t, p, fmt.Sprint("buyer-", i), id, "ref", orders.ErrOrderClosed)
			}
		}
		if got, want := refundsOf(t, store), []string{"buyer-0 ref cancelled", "buyer-1 ref rejected"}; !slices.Equal(got, want) {
			t.Errorf("refunds: %q, want %q", got, want)
		}
		rows, _, err := store.Claims(ctx, 1, "")
		now := kit.ClockOf(t, store.DB)
		if r := rows[0]; err != nil || r.OrderID != ids[0] || r.SKU != "S" || r.Currency != "EUR" || now.Sub(r.CreatedAt).Abs() > time.Minute {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// Where gate or keeper are away, the payer hears so within the wait. A hold
// that the gate has granted meanwhile goes back, whenever a keeper comes.
func TestLatePaymentWithoutAnswer(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 5, 3))
		p := New(Config{Store: b.Store, Gate: b.Gate, Redis: b.Rdb, Log: check.Log(t), Wait: 50 * time.Millisecond})
		refuse := func(id, ref string) {
			t.Helper()
			pays(t, p, "ann", id, ref, orders.ErrOrderClosed, orders.Expired)
		}
		id := b.Reserve(t, "ann", "", 2)
		b.Keeper(t, "S").Finish(t)
		kit.Overdue(t, b.Store.DB, id)
		refuse(id, "1-early") // nobody has given the units back yet
		b.Keeper(t, "S").Finish(t)
		refuse(id, "2-queued") // nobody takes it off the queue
		if len(b.Queue(t)) != 1 {
			t.Errorf("queue: %+v", b.Queue(t))
		}
		b.Keeper(t, "S").Finish(t)
		check.Must(t, b.Rdb.FlushAll(t.Context()).Err())
		refuse(id, "3-no-gate")
		b.Keeper(t, "S").Finish(t)
		want := []string{"ann 1-early not_restored", "ann 2-queued unavailable", "ann 3-no-gate unavailable"}
		if got := refundsOf(t, b.Store); !slices.Equal(got, want) {
			t.Errorf("refunds: %q", got)
		}
		kit.None(t, wrongWithLate(t, b, map[string]bool{"1-early": true, "2-queued": true, "3-no-gate": true}))
		b.Stands(t, 0, 5)
	})
}

// late has the gate let a late payment in, as a node does that then dies.
func payAgain(t testing.TB, b *bare.Bare, order, ref string) (hold string) {
	t.Helper()
	o := b.Rows(t)[order]
	hold = uuid.Must(uuid.NewV7()).String()
	r, err := b.Gate.Reserve(t.Context(), inventory.Request{
		OrderID: hold, SKU: "S", Buyer: o.Buyer, Quantity: o.Quantity, Key: ref, Pays: order, Node: "dead",
	})
	check.Must(t, err)
	return r.OrderID
}

// wrongWithLate names what is not as it must be once all payments of a sale
// are settled. Each ref must have exactly one outcome: a paid order or a refund.
func wrongWithLate(t testing.TB, b *bare.Bare, refs map[string]bool) (wrong []string) {
	t.Helper()
	rows, outcomes, units, pending := b.Rows(t), map[string]int{}, map[string]int64{}, int64(0)
	wrong = kit.BrokenClosing(t, b.Store.DB)
	for id, o := range rows {
		if o.Status == orders.Paid {
			outcomes[*o.PaymentRef]++
		}
		if o.Status == orders.PendingPayment {
			pending++
		} else if o.RestoredAt == nil {
			wrong = append(wrong, fmt.Sprintf("%s is %s and not restored", id, o.Status))
		}
		if o.Status.Open() {
			units[o.Buyer] += o.Quantity
		}
	}
	refunds, _, err := b.Store.Claims(t.Context(), 100_000, "")
	check.Must(t, err)
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
	sale, err := b.Store.Sale(t.Context(), "S")
	check.Must(t, err)
	for buyer, n := range units {
		if n > sale.PerBuyerLimit {
			wrong = append(wrong, fmt.Sprintf("%s has %d units", buyer, n))
		}
		if count, err := b.Rdb.HGet(t.Context(), "sale:{S}:buyers", buyer).Int64(); err != nil || count != n {
			wrong = append(wrong, fmt.Sprintf("%s has %d units, the gate counts %d (%v)", buyer, n, count, err))
		}
	}
	if a := b.Audit(t); !a.Balanced || a.Queued != 0 || a.Restoring != 0 {
		wrong = append(wrong, fmt.Sprintf("audit: %+v", a))
	}
	if view, err := b.Gate.Inspect(t.Context(), "S"); err != nil || view.Holds != pending {
		wrong = append(wrong, fmt.Sprintf("%d holds for %d pending orders (%v)", view.Holds, pending, err))
	}
	return wrong
}

// belated is a sale of 3 in which late payments are queued: one that fits, the
// same order's second one, one for which the database has no room (as after
// Redis lost data), and one over its buyer's limit.
func belated(t *testing.T, s *servers.Stores) (b *bare.Bare, refs map[string]bool, list map[string]string) {
	t.Helper()
	b = bare.Open(t, s, kit.Sale("S", 8, 3))
	list = map[string]string{}
	for _, buyer := range []string{"ann", "bob", "eve"} {
		list[buyer] = b.Reserve(t, buyer, "k", 2)
	}
	b.Keeper(t, "S").Finish(t)
	kit.Overdue(t, b.Store.DB, list["ann"], list["bob"], list["eve"])
	check.Must(t, check.Err(b.Store.Expire(t.Context())))
	b.Keeper(t, "S").Finish(t)
	payAgain(t, b, list["ann"], "fits")
	// The gate lets in two units each that the database does not have: it is
	// told of a larger sale, and of a larger limit.
	for field, more := range map[string]int64{"available": 10, "per_buyer": 10} {
		check.Must(t, b.Rdb.HIncrBy(t.Context(), "sale:{S}", field, more).Err())
	}
	payAgain(t, b, list["bob"], "over-limit")
	payAgain(t, b, list["eve"], "sold-out")
	for field, more := range map[string]int64{"available": -10, "per_buyer": -10} {
		check.Must(t, b.Rdb.HIncrBy(t.Context(), "sale:{S}", field, more).Err())
	}
	// Meanwhile bob and joe have got the others, of which the gate knows.
	now := kit.ClockOf(t, b.Store.DB)
	for buyer, n := range map[string]int64{"bob": 2, "joe": 3} {
		o := &orders.Order{
			ID: uuid.Must(uuid.NewV7()).String(), SKU: "S", Buyer: buyer, Quantity: n, Currency: "EUR",
			Status: orders.PendingPayment, CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		}
		check.Must(t, b.Store.DB.Create(o).Error)
		kit.Exec(t, b.Store.DB, "UPDATE sales SET sold = sold + ?", n)
		ctx := t.Context()
		b.Rdb.HSet(ctx, "sale:{S}:holds", o.ID, fmt.Sprintf("%d %d %s", n, now.UnixMilli(), buyer))
		b.Rdb.HIncrBy(ctx, "sale:{S}", "available", -n)
		b.Rdb.HIncrBy(ctx, "sale:{S}:buyers", buyer, n)
	}
	return b, map[string]bool{"fits": true, "over-limit": true, "sold-out": true}, list
}

// A strike makes a keeper fail at a step, and tells when it has.
type strike = func(kit.Fault) (kit.Plan, *atomic.Bool)

// eachCrash makes a keeper fail before and after each step of late payments, in each of the
// ways, without a caller that waits for the payments. Then another keeper continues, and
// verify checks the result.
func eachCrash(t *testing.T, ways map[string]strike, queued func(*testing.T, *servers.Stores) (*bare.Bare, map[string]bool, map[string]string), verify func(t *testing.T, b *bare.Bare, p *Service, refs map[string]bool, list map[string]string)) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		for i, step := range []string{"queue", "commit", "ack", "confirm", "mark", "shut", "recount", "install"} {
			for _, at := range []kit.Fault{{Step: step}, {Step: step, After: true}} {
				for how, strike := range ways {
					t.Run(how+" "+at.String(), func(t *testing.T) {
						b, refs, list := queued(t, s)
						defer b.Empty(t)
						if i >= 5 {
							check.Must(t, check.Err(b.Store.AskRebuild(t.Context(), "S")))
						}
						faults, struck := strike(at)
						first := b.Failing(t, faults)
						if err := first.Run(t.Context()); !errors.Is(err, kit.ErrFault) || !struck.Load() {
							t.Fatalf("it did not fail: %v", err)
						}
						b.Keeper(t, "S").Finish(t)
						verify(t, b, New(Config{Store: b.Store, Gate: b.Gate, Redis: b.Rdb, Log: check.Log(t)}), refs, list)
					})
				}
			}
		}
	})
}

// A keeper dies, or a step fails once, in the middle of late payments: each has
// one outcome, and all units are where they belong.
func TestLatePaymentCrash(t *testing.T) {
	t.Parallel()
	want := []string{"bob over-limit buyer_limit", "eve sold-out sold_out"}
	ways := map[string]strike{"dies": kit.FromThenOn, "fails": kit.Once}
	eachCrash(t, ways, belated, func(t *testing.T, b *bare.Bare, p *Service, refs map[string]bool, list map[string]string) {
		kit.None(t, wrongWithLate(t, b, refs))
		if got := refundsOf(t, b.Store); !kit.SameInAnyOrder(got, want) {
			t.Errorf("refunds: %q", got)
		}
		// The client, who heard nothing, asks again and hears the truth.
		for buyer, ref := range map[string]string{"ann": "fits", "bob": "over-limit", "eve": "sold-out"} {
			o, err := p.Pay(t.Context(), buyer, list[buyer], ref)
			if paid := buyer == "ann"; paid != (err == nil) || !paid && !errors.Is(err, orders.ErrOrderClosed) {
				t.Errorf("%s asks again: %+v, %v", buyer, o, err)
			}
		}
	})
}

// drained is a keeper that has carried the queue over, and told the gate nothing
// else; but where giveBack says so, that nothing was sold.
func drained(t *testing.T, b *bare.Bare, giveBack bool) *bare.Keeper {
	t.Helper()
	k := b.Keeper(t, "S")
	queue, release := b.Queue(t), []string(nil)
	decisions, err := b.Store.Commit(t.Context(), "S", k.Fence(), queue)
	check.Must(t, err)
	for _, d := range decisions {
		if giveBack || d.Hold == orders.Release {
			release = append(release, d.Queued.OrderID)
		}
	}
	check.Must(t, check.Err(b.Gate.Ack(t.Context(), "S", queue, release)))
	return k
}

// What each guard is for: without it the same check finds something.
func TestLatePaymentTwins(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, b *bare.Bare) string{
		"a refund is not recorded": func(t *testing.T, b *bare.Bare) string {
			b.Keeper(t, "S").Finish(t)
			kit.Exec(t, b.Store.DB, "DELETE FROM refunds WHERE payment_ref = 'sold-out'")
			return "sold-out has 0 outcomes"
		},
		"the order forgets its hold": func(t *testing.T, b *bare.Bare) string {
			k := drained(t, b, false)
			kit.Exec(t, b.Store.DB, "UPDATE orders SET hold_id = NULL")
			k.Finish(t)
			return "holds for"
		},
		"the hold is given back": func(t *testing.T, b *bare.Bare) string {
			k := drained(t, b, true)
			k.Finish(t)
			return "the gate counts"
		},
		"taken without the limit": func(t *testing.T, b *bare.Bare) string {
			kit.Exec(t, b.Store.DB, "UPDATE sales SET per_buyer_limit = 9, total = total + 9")
			k := drained(t, b, false)
			kit.Exec(t, b.Store.DB, "UPDATE sales SET per_buyer_limit = 3")
			k.Finish(t)
			return "bob has 4 units"
		},
		"paid without taking units": func(t *testing.T, b *bare.Bare) string {
			for id, o := range b.Rows(t) {
				if o.Buyer == "eve" { // as by an update without the keeper
					kit.Exec(t, b.Store.DB, "UPDATE orders SET status = ?, payment_ref = 'sold-out', paid_at = closed_at, closed_at = NULL WHERE id = ?", orders.Paid, id)
				}
			}
			b.Keeper(t, "S").Finish(t)
			return "sold is"
		},
		"paid before the units are back": func(t *testing.T, b *bare.Bare) string {
			k := b.Keeper(t, "S")
			for id, o := range b.Rows(t) {
				if o.Buyer == "ann" { // its first hold has not gone back, and does not any more
					ctx := t.Context()
					b.Rdb.HSet(ctx, "sale:{S}:holds", id, "2 1 ann")
					b.Rdb.HIncrBy(ctx, "sale:{S}", "available", -2)
					b.Rdb.HIncrBy(ctx, "sale:{S}:buyers", "ann", 2)
				}
			}
			k.Finish(t)
			return "the gate counts"
		},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.Each(t, func(t *testing.T, s *servers.Stores) {
				b, refs, _ := belated(t, s)
				says := spoil(t, b)
				if wrong := strings.Join(wrongWithLate(t, b, refs), "; "); !strings.Contains(wrong, says) {
					t.Errorf("found %q, not %q", wrong, says)
				}
			})
		})
	}
}

// The same payment, fifty times at once and on two nodes: one outcome, of which
// all are told.
func TestLatePaymentAtOnce(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		nodes := []*shop{open(t, s, quick), open(t, s, quick)}
		p := nodes[0]
		p.put(t, kit.Sale("S", 2, 2))
		for round, total := range []int64{2, 2} {
			buyer := []string{"ann", "bob"}[round]
			if round == 1 { // sold out to ann by now
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
		p.settledAt(t, 2, 0, 2)
		if got := refundsOf(t, p.store); !slices.Equal(got, []string{"bob late sold_out"}) {
			t.Errorf("refunds: %q", got)
		}
	})
}
