package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
)

// tallied is a gate with something happening right before a tally, or right
// after it: between the two looks of a comparison.
type tallied struct {
	keeper.Gate
	before, after func()
	alter         func(*inventory.View)
}

func (g tallied) Tally(ctx context.Context, sku string, ids, buyers []string) (inventory.View, error) {
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
func compares(t testing.TB, k *bare.Keeper) {
	t.Helper()
	for i := range keeper.Confirmations + 2 {
		k.Want |= keeper.Compare | keeper.Scan
		if _, _, off := k.Suspected(); i == 1 && off == 0 {
			k.BeginScan() // page by page, as if there were many buyers
			k.Want |= keeper.ScanPage
		}
		check.Must(t, k.Run(t.Context()))
	}
}

// sure fails where the keeper has seen drift, or has not compared at all.
func sure(t testing.TB, k *bare.Keeper, what string) {
	t.Helper()
	symptom, times, off := k.Suspected()
	if n := k.Counters().Repaired.Load(); n > 0 || symptom != "" || off > 0 {
		t.Errorf("%s: %d repairs; %s %d times, %d off", what, n, symptom, times, off)
	}
	if k.Counters().Compared.Load() == 0 {
		t.Errorf("%s: nothing was compared", what)
	}
}

// meanwhile is what may happen between any two steps of a keeper.
func meanwhile(t *testing.T, b *bare.Bare) map[string]func() {
	t.Helper()
	b.Reserve(t, "ann", "used", 1)
	become := func(all ...string) func() {
		return func() {
			for _, change := range all {
				check.OK(t, changes[change](t, b))
			}
		}
	}
	return map[string]func(){
		"nothing": become(), "reserve": become("placed"), "cancel": become("cancelled"), "pay": become("paid"), "expire": become("expired"),
		"restock": func() {
			put, err := b.Store.Sale(t.Context(), "S")
			if err == nil {
				put.Total++
				_, err = b.Store.PutSale(t.Context(), *put)
			}
			check.OK(t, err)
		},
		"all": become("placed", "cancelled"),
	}
}

// Whatever buyers and operators do right before a comparison, or between its
// two looks, is no drift: not at the first sight and not later.
func TestComparisonIsExact(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 5000, 3))
		for what, do := range meanwhile(t, b) {
			moments := []tallied{{Gate: b.Gate, before: do, after: do}, {Gate: b.Gate, before: do}, {Gate: b.Gate, after: do}}
			if servertest.Race {
				moments = moments[:1]
			}
			for _, g := range moments {
				for i := range 8 {
					b.Reserve(t, fmt.Sprint(what, i, g.before == nil, g.after == nil), "", 1)
				}
				k := bare.KeeperOf(t, b.Store, g, "S")
				compares(t, k)
				sure(t, k, what)
			}
		}
	})
}

// driftable is a sale with orders of all kinds that the gate knows of, and one
// in the queue.
func driftable(t *testing.T, b *bare.Bare) {
	t.Helper()
	kit.Put(t, b.Store, kit.Sale("S", 30, 3))
	b.Keeper(t, "S").Finish(t)
	b.Reserve(t, "ann", "", 2)
	cancelled, paid := b.Reserve(t, "bob", "", 2), b.Reserve(t, "eve", "", 1)
	k := b.Keeper(t, "S")
	k.Finish(t)
	check.Must(t, check.Err(b.Store.Cancel(t.Context(), "bob", cancelled)))
	check.Must(t, check.Err(b.Store.Pay(t.Context(), "eve", paid, "ref")))
	k.Finish(t)
	b.Reserve(t, "sue", "", 1)
}

// Every drift is repaired once it has been seen three times, not before and
// not twice, and nothing else is changed by that.
func TestDriftIsRepaired(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 30, 3))
		for i, what := range slices.Repeat(slices.Collect(maps.Keys(bare.Drifts)), 2) {
			drift, paged := bare.Drifts[what], i >= len(bare.Drifts) // as if there were many buyers
			t.Run(what, func(t *testing.T) {
				b.Empty(t)
				driftable(t, b)
				if !drift(t, b) {
					t.Fatal("nothing to change")
				}
				k := b.Keeper(t, "S")
				k.Want |= keeper.Scan
				if paged {
					k.BeginScan()
					k.Want |= keeper.ScanPage
				}
				check.Must(t, k.Run(t.Context()))
				for n := 1; n <= keeper.Confirmations; n++ {
					if k.Counters().Repaired.Load() > 0 {
						t.Fatalf("repaired at comparison %d", n-1)
					}
					k.Want |= keeper.Compare
					check.Must(t, k.Run(t.Context()))
				}
				if n := k.Counters().Repaired.Load(); n != 1 {
					symptom, times, _ := k.Suspected()
					t.Errorf("%d repairs; %q %d times", n, symptom, times)
				}
				kit.None(t, b.Wrong(t))
				compares(t, k)
				if n := k.Counters().Repaired.Load(); n != 1 {
					t.Errorf("%d repairs in the end", n)
				}
			})
		}
	})
}

// Units that are back on sale, of an order that is not yet marked, count
// twice. Where a full batch of others comes before it, nothing is compared.
func TestUnmarkedReleaseIsNoDrift(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"ack", "mark"} { // seen again in the queue and given back; released
		servertest.Each(t, func(t *testing.T, s *servers.Stores) {
			b := bare.Open(t, s, kit.Sale("S", 30, 3))
			fail, failed := kit.Once(kit.Fault{Step: step})
			k := bare.KeeperOf(t, b.Store, bare.Faulty(b.Gate, fail), "S")
			if step == "mark" {
				k.Use(bare.FaultyStore(t, b.Store, fail), bare.Faulty(b.Gate, fail))
			}
			k.Finish(t)   // so far all is marked
			k.SetBatch(4) // orders in one transaction, all of them
			late := b.Reserve(t, "late", "", 1)
			for i := range 3 {
				b.Reserve(t, fmt.Sprint("buyer-", i), "", 1)
			}
			expire := func() {
				kit.Overdue(t, b.Store.DB, late)
				check.Must(t, check.Err(b.Store.Expire(t.Context())))
			}
			pass := func() error { return k.Step(t.Context()) }
			if step == "mark" {
				check.Must(t, pass())
				expire()
				k.Want |= keeper.Release
			}
			if err := pass(); !errors.Is(err, kit.ErrFault) || !failed.Load() {
				t.Fatal(err)
			}
			if step == "ack" {
				expire()
			}
			for _, o := range b.Rows(t) {
				if o.ID != late {
					check.Must(t, check.Err(b.Store.Cancel(t.Context(), o.Buyer, o.ID)))
				}
			}
			k.SetBatch(3)
			k.Want |= keeper.Compare
			check.Must(t, pass())
			if row := b.Rows(t)[late]; row.RestoredAt != nil {
				t.Fatal("it has been marked: this shows nothing")
			}
			if symptom, _, _ := k.Suspected(); symptom != "" {
				t.Errorf("%s", symptom)
			}
			compares(t, k)
			sure(t, k, step)
		})
	}
}

// A keeper that another one has replaced finds that out, and not drift.
func TestFencedKeeperSeesNoDrift(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 30, 3))
		var next *bare.Keeper
		k := bare.KeeperOf(t, b.Store, tallied{Gate: b.Gate, before: func() { b.Reserve(t, "ann", "", 1) }, after: func() {
			next = b.Keeper(t, "S") // and it carries over what was in the queue
			next.Finish(t)
		}}, "S")
		k.Want |= keeper.Compare
		check.Is(t, k.Run(t.Context()), orders.ErrFenced)
		if symptom, times, _ := k.Suspected(); times > 0 || k.Counters().Compared.Load() > 0 {
			t.Errorf("%s %d times", symptom, times)
		}
	})
}

// One look may be wrong: it is answered by a primary that is on its way out.
// Whoever acts on it shuts a gate that is right.
func TestFirstSightIsNotEnough(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 30, 3))
		for _, hasty := range []bool{false, true} {
			looks := 0
			k := bare.KeeperOf(t, b.Store, tallied{Gate: b.Gate, alter: func(t *inventory.View) {
				if looks++; looks == 1 {
					t.Available++
				}
			}}, "S")
			if hasty {
				k.Suspect(keeper.UnitsTooMany, keeper.Confirmations-1)
			}
			for range keeper.Confirmations + 1 {
				k.Want |= keeper.Compare
				check.Must(t, k.Run(t.Context()))
			}
			if repaired := k.Counters().Repaired.Load() > 0; repaired != hasty {
				t.Errorf("hasty: %v, repaired: %v", hasty, repaired)
			}
		}
	})
}

// A comparison that ignores the queue takes a busy sale for one that drifts:
// the same check that says "no drift" of the right one says so.
func TestComparisonNeedsTheQueue(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 30, 3))
		n := 0
		k := bare.KeeperOf(t, b.Store, tallied{
			Gate:   b.Gate,
			before: func() { n++; b.Reserve(t, fmt.Sprint("buyer-", n), "", 1) },
			alter:  func(t *inventory.View) { t.Orders, t.Queued = nil, 0 },
		}, "S")
		for range keeper.Confirmations {
			k.Want |= keeper.Compare
			check.Must(t, k.Run(t.Context()))
		}
		if k.Counters().Repaired.Load() == 0 {
			t.Error("nothing found")
		}
	})
}

// A reconciler that writes what is available from the database's sums, while
// orders are on their way, sells units twice. The comparison finds it.
func TestOverwritingAvailableOversells(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 3, 3))
		k := bare.KeeperOf(t, b.Store, b.Gate, "S")
		k.Finish(t)
		b.Reserve(t, "ann", "", 2)
		row, err := b.Store.Sale(t.Context(), "S")
		check.Must(t, err)
		b.Rdb.HSet(t.Context(), "sale:{S}", "available", row.Total-row.Sold)
		b.Reserve(t, "bob", "", 2) // which must not have been possible
		if a := b.Audit(t); a.Drift != -2 {
			t.Errorf("audit: %+v", a)
		}
		compares(t, k)
		if a := b.Audit(t); k.Counters().Repaired.Load() != 1 || a.Oversold != 0 || a.Sold != 2 || len(b.Wrong(t)) > 0 {
			t.Errorf("%d repairs, %+v, %v", k.Counters().Repaired.Load(), a, b.Wrong(t))
		}
	})
}
