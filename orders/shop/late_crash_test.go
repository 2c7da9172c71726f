package shop

import (
	"errors"
	"fmt"
	"strings"
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
)

// payAgain reserves a late payment at the gate, for a node that crashes before the payment is
// decided.
func payAgain(t testing.TB, b *bare.Bare, order, ref string) (hold string) {
	t.Helper()
	o := b.Rows(t)[order]
	hold = uuid.Must(uuid.NewV7()).String()
	r, err := b.Gate.Reserve(t.Context(), inventory.Request{
		OrderID: hold, SKU: "S", Buyer: o.Buyer, Quantity: o.Quantity, Key: ref, PaysOrder: order, Node: "dead",
	})
	check.Must(t, err)
	return r.OrderID
}

// wrongWithLate returns the violations in a settled sale with late payments. Each payment in
// refs must have exactly one outcome, a paid order or a refund claim.
func wrongWithLate(t testing.TB, b *bare.Bare, refs map[string]bool) (wrong []string) {
	t.Helper()
	rows, outcomes, units, pending := b.Rows(t), map[string]int{}, map[string]int64{}, int64(0)
	wrong = kit.InconsistentOrders(t, b.Store.DB)
	for id, o := range rows {
		if o.Status == orders.Paid {
			outcomes[*o.PaymentRef]++
		}
		if o.Status == orders.PendingPayment {
			pending++
		} else if o.RestoredAt == nil {
			wrong = append(wrong, fmt.Sprintf("%s is %s and not released", id, o.Status))
		}
		if o.Status.CountsAsSold() {
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
		if n > sale.UnitsPerBuyer {
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

// belated returns a sale of 8 units in which three late payments are queued. ann's payment fits,
// bob's exceeds his limit, and for eve's the database has too few units. A gate accepts payments
// like bob's and eve's if Redis has lost data.
func belated(t *testing.T, s *servers.Stores) (b *bare.Bare, refs map[string]bool, list map[string]string) {
	t.Helper()
	b = bare.Open(t, s, kit.Sale("S", 8, 3))
	list = map[string]string{}
	for _, buyer := range []string{"ann", "bob", "eve"} {
		list[buyer] = b.Reserve(t, buyer, "k", 2)
	}
	b.Keeper(t, "S").Finish(t)
	kit.MakeOverdue(t, b.Store.DB, list["ann"], list["bob"], list["eve"])
	check.Must(t, check.Err(b.Store.Expire(t.Context())))
	b.Keeper(t, "S").Finish(t)
	payAgain(t, b, list["ann"], "fits")
	// For a moment the gate has more units and a higher limit than the database.
	for field, more := range map[string]int64{"available": 10, "per_buyer": 10} {
		check.Must(t, b.Rdb.HIncrBy(t.Context(), "sale:{S}", field, more).Err())
	}
	payAgain(t, b, list["bob"], "over-limit")
	payAgain(t, b, list["eve"], "sold-out")
	for field, more := range map[string]int64{"available": -10, "per_buyer": -10} {
		check.Must(t, b.Rdb.HIncrBy(t.Context(), "sale:{S}", field, more).Err())
	}
	// bob and joe have bought 5 units, which both stores count.
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

// A strike returns a plan that makes a keeper fail at a step, and whether it has failed.
type strike = func(kit.Fault) (kit.Plan, *atomic.Bool)

// eachCrash makes a keeper fail before and after each step of late payments, in each of the
// ways, without a caller that waits for the payments. Then another keeper continues, and
// verify checks the result.
func eachCrash(t *testing.T, ways map[string]strike, queued func(*testing.T, *servers.Stores) (*bare.Bare, map[string]bool, map[string]string), verify func(t *testing.T, b *bare.Bare, p *Service, refs map[string]bool, list map[string]string)) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		for i, step := range []string{"queue", "commit", "ack", "drop", "mark", "shut", "recount", "install"} {
			for _, at := range []kit.Fault{{Step: step}, {Step: step, After: true}} {
				for how, strike := range ways {
					t.Run(how+" "+at.String(), func(t *testing.T) {
						b, refs, list := queued(t, s)
						defer b.DeleteAll(t)
						if i >= 5 {
							check.Must(t, check.Err(b.Store.RequestRebuild(t.Context(), "S")))
						}
						faults, struck := strike(at)
						first := b.FailingKeeper(t, faults)
						if err := first.Run(t.Context()); !errors.Is(err, kit.ErrFault) || !struck.Load() {
							t.Fatalf("keeper at %s: got error %v, want the injected fault", at, err)
						}
						b.Keeper(t, "S").Finish(t)
						verify(t, b, owning(t, New(Config{Store: b.Store, Gate: b.Gate, Redis: b.Rdb, Log: check.Log(t)})), refs, list)
					})
				}
			}
		}
	})
}

// A keeper crashes, or a step fails once, while late payments are decided. Each payment has one
// outcome, which a repetition returns, and all units are accounted for.
func TestLatePaymentCrash(t *testing.T) {
	t.Parallel()
	want := []string{"bob over-limit buyer_limit", "eve sold-out sold_out"}
	ways := map[string]strike{"dies": kit.FromThenOn, "fails": kit.Once}
	eachCrash(t, ways, belated, func(t *testing.T, b *bare.Bare, p *Service, refs map[string]bool, list map[string]string) {
		kit.MustBeEmpty(t, wrongWithLate(t, b, refs))
		if got := refundsOf(t, b.Store); !kit.SameInAnyOrder(got, want) {
			t.Errorf("refund claims: got %q, want %q", got, want)
		}
		for buyer, ref := range map[string]string{"ann": "fits", "bob": "over-limit", "eve": "sold-out"} {
			o, err := p.Pay(t.Context(), buyer, list[buyer], ref)
			if paid := buyer == "ann"; paid != (err == nil) || !paid && !errors.Is(err, orders.ErrOrderClosed) {
				t.Errorf("repeated payment of %s: got %+v, error %v, want paid %t", buyer, o, err, paid)
			}
		}
	})
}

// drained commits the queue and acknowledges it at the gate, and returns the keeper before its
// next step. If releaseAll is true, it releases the holds of all orders, also of sold ones.
func drained(t *testing.T, b *bare.Bare, releaseAll bool) *bare.Keeper {
	t.Helper()
	k := b.Keeper(t, "S")
	queue, release := b.Queue(t), []string(nil)
	decisions, err := b.Store.Commit(t.Context(), "S", k.Fence(), queue)
	check.Must(t, err)
	for _, d := range decisions {
		if releaseAll || d.Hold == orders.ReleaseHold {
			release = append(release, d.Queued.OrderID)
		}
	}
	check.Must(t, check.Err(b.Gate.Ack(t.Context(), "S", queue, release)))
	return k
}

// Each case simulates a service that lacks one guard of late payments. wrongWithLate must find
// the resulting violation.
func TestLatePaymentTwins(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, b *bare.Bare) string{
		"the refund claim is missing": func(t *testing.T, b *bare.Bare) string {
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
		"the hold is released": func(t *testing.T, b *bare.Bare) string {
			k := drained(t, b, true)
			k.Finish(t)
			return "the gate counts"
		},
		"the limit is not checked": func(t *testing.T, b *bare.Bare) string {
			kit.Exec(t, b.Store.DB, "UPDATE sales SET per_buyer_limit = 9, total = total + 9")
			k := drained(t, b, false)
			kit.Exec(t, b.Store.DB, "UPDATE sales SET per_buyer_limit = 3")
			k.Finish(t)
			return "bob has 4 units"
		},
		"paid without taking units": func(t *testing.T, b *bare.Bare) string {
			for id, o := range b.Rows(t) {
				if o.Buyer == "eve" { // the update bypasses the keeper
					kit.Exec(t, b.Store.DB, "UPDATE orders SET status = ?, payment_ref = 'sold-out', paid_at = closed_at, closed_at = NULL WHERE id = ?", orders.Paid, id)
				}
			}
			b.Keeper(t, "S").Finish(t)
			return "sold is"
		},
		"paid before the units are released": func(t *testing.T, b *bare.Bare) string {
			k := b.Keeper(t, "S")
			for id, o := range b.Rows(t) {
				if o.Buyer == "ann" { // the first hold of ann's order is never released
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
				want := spoil(t, b)
				if wrong := strings.Join(wrongWithLate(t, b, refs), "; "); !strings.Contains(wrong, want) {
					t.Errorf("violations of the twin: got %q, want %q", wrong, want)
				}
			})
		})
	}
}
