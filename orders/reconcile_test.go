package orders

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// tallied is a gate with something happening right before a tally, or right
// after it: between the two looks of a comparison.
type tallied struct {
	Gate
	before, after func()
	alter         func(*inventory.Tally)
}

func (g tallied) Tally(ctx context.Context, sku string, ids, buyers []string) (inventory.Tally, error) {
	if g.before != nil {
		g.before()
	}
	t, err := g.Gate.Tally(ctx, sku, ids, buyers)
	if g.alter != nil {
		g.alter(&t)
	}
	if g.after != nil {
		g.after()
	}
	return t, err
}

// compares has the keeper compare everything, as often as makes it act.
func (k *keeper) compares(t testing.TB) {
	t.Helper()
	for i := range lasting + 2 {
		k.due.Store(true)
		k.walk.Store(true)
		if i == 1 && len(k.orders)+len(k.buyers) == 0 {
			k.round = &round{at: 1} // page by page, as if there were many buyers
		}
		if err := k.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// sure fails where the keeper has seen drift, or has not compared at all.
func (k *keeper) sure(t testing.TB, what string) {
	t.Helper()
	if n := k.count.Repaired.Load(); n > 0 || k.symptom != "" || len(k.orders)+len(k.buyers) > 0 {
		t.Errorf("%s: %d repairs; %s %d times, orders %v, buyers %v", what, n, k.symptom, k.times, k.orders, k.buyers)
	}
	if k.count.Compared.Load() == 0 {
		t.Errorf("%s: nothing was compared", what)
	}
}

// meanwhile is what may happen between any two steps of a keeper.
func (b *bare) meanwhile(t *testing.T) map[string]func() {
	t.Helper()
	var n int64
	ctx := t.Context()
	b.reserve(t, "ann", "used", 1)
	fresh := func() string {
		n++
		return b.reserve(t, fmt.Sprint("fresh-", n), "", 1)
	}
	pending := func(what string, do func(Order) error) func() {
		return func() {
			for _, o := range b.rows(t) {
				if o.Status == PendingPayment {
					if err := do(o); err != nil {
						t.Errorf("%s: %v", what, err)
					}
					return
				}
			}
		}
	}
	return map[string]func(){
		"nothing": func() {},
		"reserve": func() { fresh() },
		"cancel": pending("cancel", func(o Order) error {
			_, err := b.store.Cancel(ctx, o.Buyer, o.ID)
			return err
		}),
		"pay": pending("pay", func(o Order) error {
			_, err := b.store.Pay(ctx, o.Buyer, o.ID, "ref")
			return err
		}),
		"expire": pending("expire", func(o Order) error {
			overdue(t, b.store, o.ID)
			_, err := b.store.Expire(ctx)
			return err
		}),
		"restock": func() {
			put, err := b.store.Sale(ctx, "S")
			if err == nil {
				put.Total++
				_, err = b.store.PutSale(ctx, *put)
			}
			if err != nil {
				t.Error(err)
			}
		},
		"all": func() {
			fresh()
			pending("cancel", func(o Order) error { _, err := b.store.Cancel(ctx, o.Buyer, o.ID); return err })()
		},
	}
}

// Whatever buyers and operators do right before a comparison, or between its
// two looks, is no drift: not at the first sight and not later.
func TestComparisonIsExact(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := openBare(t, s, sale("S", 5000, 3))
		for what, do := range b.meanwhile(t) {
			moments := []tallied{{Gate: b.gate, before: do, after: do}, {Gate: b.gate, before: do}, {Gate: b.gate, after: do}}
			if servertest.Race {
				moments = moments[:1]
			}
			for _, g := range moments {
				for i := range 8 {
					b.reserve(t, fmt.Sprint(what, i, g.before == nil, g.after == nil), "", 1)
				}
				k := keeperOf(t, b.store, g, "S")
				k.compares(t)
				k.sure(t, what)
			}
		}
	})
}

// A step that fails, before or after it is done, is no drift: neither to the
// keeper that goes on nor to the one that comes after it.
func TestFailedStepIsNoDrift(t *testing.T) {
	eachStep(t, func(t *testing.T, b *bare, at fault) {
		fail, _ := once(at)
		k := keeperOf(t, faultyStore(t, b.store, fail), faultyGate{b.gate, fail}, "S")
		for {
			k.due.Store(true)
			k.walk.Store(true)
			err := k.run(t.Context())
			if err == nil {
				break
			}
			if !errors.Is(err, errFault) {
				t.Fatal(err)
			}
		}
		k.compares(t)
		k.sure(t, "the same keeper")
	})
	eachStep(t, func(t *testing.T, b *bare, at fault) {
		die, _ := fromThenOn(at)
		if err := keeperOf(t, faultyStore(t, b.store, die), faultyGate{b.gate, die}, "S").run(t.Context()); !errors.Is(err, errFault) {
			t.Fatal(err)
		}
		k := b.keeper(t, "S")
		k.compares(t)
		k.sure(t, "the next keeper")
	})
}

// drifts are all ways in which this test makes a gate differ from the
// database. Each returns false where there is nothing that it could change.
var drifts = map[string]func(t testing.TB, b *bare) bool{
	"units vanish":           func(t testing.TB, b *bare) bool { return b.change(t, "", "available", -2) },
	"units appear":           func(t testing.TB, b *bare) bool { return b.change(t, "", "available", 2) },
	"queue miscounted":       func(t testing.TB, b *bare) bool { return b.change(t, "", "queued", 7) },
	"buyer's count too high": func(t testing.TB, b *bare) bool { return b.change(t, ":buyers", b.someOf(t, ":buyers"), 1) },
	"buyer's count too low":  func(t testing.TB, b *bare) bool { return b.change(t, ":buyers", b.someOf(t, ":buyers"), -1) },
	"unknown buyer counted":  func(t testing.TB, b *bare) bool { return b.change(t, ":buyers", "nobody", 3) },
	"hold vanishes": func(t testing.TB, b *bare) bool {
		id := b.someOf(t, ":holds")
		return id != "" && b.rdb.HDel(t.Context(), "sale:{S}:holds", id).Val() == 1
	},
	"hold appears": func(t testing.TB, b *bare) bool {
		id := uuid.Must(uuid.NewV7()).String()
		return b.rdb.HSet(t.Context(), "sale:{S}:holds", id, "2 1700000000000 ghost").Val() == 1
	},
	"queue entry dropped": func(t testing.TB, b *bare) bool {
		entries := b.rdb.XRangeN(t.Context(), "sale:{S}:queue", "-", "+", 1).Val()
		return len(entries) > 0 && b.rdb.XDel(t.Context(), "sale:{S}:queue", entries[0].ID).Val() == 1
	},
	"confirm lost": func(t testing.TB, b *bare) bool {
		for id, o := range rowsOf(t, b.store) {
			if o.Status == Paid && o.RestoredAt != nil {
				return b.rdb.HSet(t.Context(), "sale:{S}:holds", id, fmt.Sprintf("%d 1700000000000 %s", o.Quantity, o.Buyer)).Val() == 1
			}
		}
		return false
	},
	"release lost": func(t testing.TB, b *bare) bool { return b.loseRelease(t) > 0 },
	"reserve and release lost": func(t testing.TB, b *bare) bool {
		units := b.loseRelease(t)
		if units == 0 {
			return false
		}
		if !b.loseReserve(t, units) { // and so the sums do not show it
			b.change(t, "", "available", units)
		}
		return true
	},
}

func (b *bare) change(t testing.TB, key, field string, by int64) bool {
	t.Helper()
	if field == "" {
		return false
	}
	if err := b.rdb.HIncrBy(t.Context(), "sale:{S}"+key, field, by).Err(); err != nil {
		t.Fatal(err)
	}
	return true
}

// someOf is a field of a hash, "" where there is none.
func (b *bare) someOf(t testing.TB, key string) string {
	t.Helper()
	fields, err := b.rdb.HKeys(t.Context(), "sale:{S}"+key).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		return f
	}
	return ""
}

// loseRelease takes back what the gate did for an order that it gave back, as
// a primary that failed over does, and returns its units.
func (b *bare) loseRelease(t testing.TB) int64 {
	t.Helper()
	for id, o := range rowsOf(t, b.store) {
		held := b.rdb.HExists(t.Context(), "sale:{S}:holds", id).Val()
		if o.Status.Closed() && o.RestoredAt != nil && !held {
			b.rdb.HSet(t.Context(), "sale:{S}:holds", id, fmt.Sprintf("%d %d %s", o.Quantity, o.CreatedAt.UnixMilli(), o.Buyer))
			b.change(t, "", "available", -o.Quantity)
			b.change(t, ":buyers", o.Buyer, o.Quantity)
			return o.Quantity
		}
	}
	return 0
}

// loseReserve takes back what the gate did for a pending order of so many units.
func (b *bare) loseReserve(t testing.TB, units int64) bool {
	t.Helper()
	for id, o := range rowsOf(t, b.store) {
		if o.Status == PendingPayment && o.Quantity == units && b.rdb.HDel(t.Context(), "sale:{S}:holds", id).Val() == 1 {
			b.change(t, "", "available", units)
			b.change(t, ":buyers", o.Buyer, -units)
			return true
		}
	}
	return false
}

// wrong names what differs between gate and database when all is calm.
func (b *bare) wrong(t testing.TB) (wrong []string) {
	t.Helper()
	a := b.audit(t)
	if !a.Balanced || a.Held != 0 || a.Restoring != 0 || a.Available != a.Total-a.Sold {
		wrong = append(wrong, fmt.Sprintf("audit %+v", a))
	}
	holds, buyers := b.rdb.HGetAll(t.Context(), "sale:{S}:holds").Val(), b.rdb.HGetAll(t.Context(), "sale:{S}:buyers").Val()
	units := map[string]int64{}
	pending := 0
	for id, o := range rowsOf(t, b.store) {
		if o.Status.Open() {
			units[o.Buyer] += o.Quantity
		}
		if o.Status == PendingPayment {
			pending++
			if holds[id] == "" {
				wrong = append(wrong, "no hold of "+id)
			}
		}
	}
	if len(holds) != pending {
		wrong = append(wrong, fmt.Sprintf("%d holds of %d pending orders", len(holds), pending))
	}
	for buyer, n := range buyers {
		if fmt.Sprint(units[buyer]) != n {
			wrong = append(wrong, fmt.Sprintf("%s has %d units, the gate says %s", buyer, units[buyer], n))
		}
		delete(units, buyer)
	}
	for buyer, n := range units {
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf("%s has %d units, the gate knows none", buyer, n))
		}
	}
	if n := b.rdb.HGet(t.Context(), "sale:{S}", "queued").Val(); n != "0" {
		wrong = append(wrong, n+" orders are counted in an empty queue")
	}
	return wrong
}

// driftable is a sale with orders of all kinds that the gate knows of, and one
// in the queue.
func driftable(t *testing.T, b *bare) {
	t.Helper()
	if _, err := b.store.PutSale(t.Context(), sale("S", 30, 3)); err != nil {
		t.Fatal(err)
	}
	b.keeper(t, "S").finish(t)
	b.reserve(t, "ann", "", 2)
	cancelled, paid := b.reserve(t, "bob", "", 2), b.reserve(t, "eve", "", 1)
	k := b.keeper(t, "S")
	k.finish(t)
	if _, err := b.store.Cancel(t.Context(), "bob", cancelled); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Pay(t.Context(), "eve", paid, "ref"); err != nil {
		t.Fatal(err)
	}
	k.finish(t)
	b.reserve(t, "sue", "", 1)
}

// Every drift is repaired once it has been seen three times, not before and
// not twice, and nothing else is changed by that.
func TestDriftIsRepaired(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := openBare(t, s, sale("S", 30, 3))
		for i, what := range slices.Repeat(slices.Collect(maps.Keys(drifts)), 2) {
			drift, paged := drifts[what], i >= len(drifts) // as if there were many buyers
			t.Run(what, func(t *testing.T) {
				b.empty(t)
				driftable(t, b)
				if !drift(t, b) {
					t.Fatal("nothing to change")
				}
				k := b.keeper(t, "S")
				k.walk.Store(!paged)
				if paged {
					k.round = &round{at: 1}
				}
				if err := k.run(t.Context()); err != nil {
					t.Fatal(err)
				}
				for n := 1; n <= lasting; n++ {
					if k.count.Repaired.Load() > 0 {
						t.Fatalf("repaired at comparison %d", n-1)
					}
					k.due.Store(true)
					if err := k.run(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if n := k.count.Repaired.Load(); n != 1 {
					t.Errorf("%d repairs; %q %d times", n, k.symptom, k.times)
				}
				if wrong := b.wrong(t); len(wrong) > 0 {
					t.Error(wrong)
				}
				k.compares(t)
				if n := k.count.Repaired.Load(); n != 1 {
					t.Errorf("%d repairs in the end", n)
				}
			})
		}
	})
}

// Units that are back on sale, of an order that is not yet marked, count
// twice. Where a full batch of others comes before it, nothing is compared.
func TestUnmarkedReleaseIsNoDrift(t *testing.T) {
	for _, step := range []string{"settle", "mark"} { // seen again in the queue and given back; released
		servertest.Each(t, func(t *testing.T, s *servers.Stores) {
			b := openBare(t, s, sale("S", 30, 3))
			fail, failed := once(fault{step: step})
			k := keeperOf(t, b.store, faultyGate{b.gate, fail}, "S")
			if step == "mark" {
				k.store = faultyStore(t, b.store, fail)
			}
			k.finish(t) // so far all is marked
			k.batch = 4 // orders in one transaction, all of them
			late := b.reserve(t, "late", "", 1)
			for i := range 3 {
				b.reserve(t, fmt.Sprint("buyer-", i), "", 1)
			}
			expire := func() {
				overdue(t, b.store, late)
				if _, err := b.store.Expire(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			pass := func() error { _, err := k.pass(t.Context()); return err }
			if step == "mark" {
				if err := pass(); err != nil {
					t.Fatal(err)
				}
				expire()
				k.ended.Store(true)
			}
			if err := pass(); !errors.Is(err, errFault) || !failed.Load() {
				t.Fatal(err)
			}
			if step == "settle" {
				expire()
			}
			for _, o := range b.rows(t) {
				if o.ID != late {
					if _, err := b.store.Cancel(t.Context(), o.Buyer, o.ID); err != nil {
						t.Fatal(err)
					}
				}
			}
			k.batch = 3
			k.due.Store(true)
			if err := pass(); err != nil {
				t.Fatal(err)
			}
			if row := b.rows(t)[late]; row.RestoredAt != nil {
				t.Fatal("it has been marked: this shows nothing")
			}
			if k.symptom != "" {
				t.Errorf("%s", k.symptom)
			}
			k.compares(t)
			k.sure(t, step)
		})
	}
}

// A keeper that another one has replaced finds that out, and not drift.
func TestFencedKeeperSeesNoDrift(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := openBare(t, s, sale("S", 30, 3))
		var next *keeper
		k := keeperOf(t, b.store, tallied{Gate: b.gate, before: func() { b.reserve(t, "ann", "", 1) }, after: func() {
			next = b.keeper(t, "S") // and it carries over what was in the queue
			next.finish(t)
		}}, "S")
		k.due.Store(true)
		if err := k.run(t.Context()); !errors.Is(err, ErrFenced) {
			t.Errorf("%v", err)
		}
		if k.times > 0 || k.count.Compared.Load() > 0 {
			t.Errorf("%s %d times", k.symptom, k.times)
		}
	})
}

// One look may be wrong: it is answered by a primary that is on its way out.
// Whoever acts on it shuts a gate that is right.
func TestFirstSightIsNotEnough(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := openBare(t, s, sale("S", 30, 3))
		for _, hasty := range []bool{false, true} {
			looks := 0
			k := keeperOf(t, b.store, tallied{Gate: b.gate, alter: func(t *inventory.Tally) {
				if looks++; looks == 1 {
					t.Available++
				}
			}}, "S")
			if hasty {
				k.symptom, k.times = unitsTooMany, lasting-1
			}
			for range lasting + 1 {
				k.due.Store(true)
				if err := k.run(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if repaired := k.count.Repaired.Load() > 0; repaired != hasty {
				t.Errorf("hasty: %v, repaired: %v", hasty, repaired)
			}
		}
	})
}

// A comparison that ignores the queue takes a busy sale for one that drifts:
// the same check that says "no drift" of the right one says so.
func TestComparisonNeedsTheQueue(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := openBare(t, s, sale("S", 30, 3))
		n := 0
		k := keeperOf(t, b.store, tallied{
			Gate:   b.gate,
			before: func() { n++; b.reserve(t, fmt.Sprint("buyer-", n), "", 1) },
			alter:  func(t *inventory.Tally) { t.Queued, t.Counted = nil, 0 },
		}, "S")
		for range lasting {
			k.due.Store(true)
			if err := k.run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if k.count.Repaired.Load() == 0 {
			t.Error("nothing found")
		}
	})
}

// A reconciler that writes what is available from the database's sums, while
// orders are on their way, sells units twice. The comparison finds it.
func TestOverwritingAvailableOversells(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := openBare(t, s, sale("S", 3, 3))
		k := keeperOf(t, b.store, b.gate, "S")
		k.finish(t)
		b.reserve(t, "ann", "", 2)
		row, err := b.store.Sale(t.Context(), "S")
		if err != nil {
			t.Fatal(err)
		}
		b.rdb.HSet(t.Context(), "sale:{S}", "available", row.Total-row.Sold)
		b.reserve(t, "bob", "", 2) // which must not have been possible
		if a := b.audit(t); a.Drift != -2 {
			t.Errorf("audit: %+v", a)
		}
		k.compares(t)
		if a := b.audit(t); k.count.Repaired.Load() != 1 || a.Oversold != 0 || a.Sold != 2 || len(b.wrong(t)) > 0 {
			t.Errorf("%d repairs, %+v, %v", k.count.Repaired.Load(), a, b.wrong(t))
		}
	})
}
