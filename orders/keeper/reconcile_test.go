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

// A tallyGate calls before and after when a comparison reads the gate. The function after runs
// before the comparison reads the database.
type tallyGate struct {
	keeper.Gate
	before, after func()
	alter         func(*inventory.View)
}

func (g tallyGate) Tally(ctx context.Context, sku string, ids, buyers []string) (inventory.View, error) {
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

// compares runs enough comparisons of everything for the keeper to repair drift.
func compares(t testing.TB, k *bare.Keeper) {
	t.Helper()
	for i := range keeper.SightingsToRebuild + 2 {
		k.Work |= keeper.CompareSums | keeper.StartScan
		if _, _, wrong := k.Symptom(); i == 1 && wrong == 0 {
			k.BeginScan() // one page per pass, as with many buyers
			k.Work |= keeper.ContinueScan
		}
		check.Must(t, k.Run(t.Context()))
	}
}

// checkNoDrift fails if the keeper has found drift or has not compared anything.
func checkNoDrift(t testing.TB, k *bare.Keeper, what string) {
	t.Helper()
	symptom, times, wrong := k.Symptom()
	if n := k.Counters().Repaired.Load(); n > 0 || symptom != "" || wrong > 0 {
		t.Errorf("keeper without drift, %s: got %d repairs, symptom %q %d times, %d wrong orders and buyers, want none", what, n, symptom, times, wrong)
	}
	if k.Counters().Compared.Load() == 0 {
		t.Errorf("keeper, %s: got no comparison, want at least one", what)
	}
}

// concurrentChanges returns what may happen between any two steps of a keeper, by name.
func concurrentChanges(t *testing.T, b *bare.Bare) map[string]func() {
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
		"nothing": become(), "reserve": become("placed"), "cancel": become("cancelled"), "pay": become("paid"), "expire": become("expired"), "void": become("paid", "voided"),
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

// Changes by buyers and operators before a comparison, or between its reads of the two stores,
// are never taken for drift.
func TestComparisonIsExact(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 5000, 3))
		for what, do := range concurrentChanges(t, b) {
			moments := []tallyGate{{Gate: b.Gate, before: do, after: do}, {Gate: b.Gate, before: do}, {Gate: b.Gate, after: do}}
			if servertest.Race {
				moments = moments[:1]
			}
			for _, g := range moments {
				for i := range 8 {
					b.Reserve(t, fmt.Sprint(what, i, g.before == nil, g.after == nil), "", 1)
				}
				k := bare.KeeperOf(t, b.Store, g, "S")
				compares(t, k)
				checkNoDrift(t, k, what)
			}
		}
	})
}

// settledSale puts a sale with a pending and a released order, a paid order without a hold, and
// a queued order.
func settledSale(t *testing.T, b *bare.Bare) {
	t.Helper()
	kit.PutSale(t, b.Store, kit.Sale("S", 30, 3))
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

// Every drift is repaired once, by the third comparison that finds it. The repair changes
// nothing else.
func TestDriftIsRepaired(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 30, 3))
		for i, what := range slices.Repeat(slices.Collect(maps.Keys(bare.Drifts)), 2) {
			drift, paged := bare.Drifts[what], i >= len(bare.Drifts) // paged: one page per pass, as with many buyers
			t.Run(what, func(t *testing.T) {
				b.DeleteAll(t)
				settledSale(t, b)
				if !drift(t, b) {
					t.Fatal("drift: it found nothing that it could change, want a change")
				}
				k := b.Keeper(t, "S")
				k.Work |= keeper.StartScan
				if paged {
					k.BeginScan()
					k.Work |= keeper.ContinueScan
				}
				check.Must(t, k.Run(t.Context()))
				for n := 1; n <= keeper.SightingsToRebuild; n++ {
					if k.Counters().Repaired.Load() > 0 {
						t.Fatalf("drift: got a repair after %d comparisons, want it after %d", n-1, keeper.SightingsToRebuild)
					}
					k.Work |= keeper.CompareSums
					check.Must(t, k.Run(t.Context()))
				}
				if n := k.Counters().Repaired.Load(); n != 1 {
					symptom, times, _ := k.Symptom()
					t.Errorf("drift: got %d repairs, want 1; last symptom %q, in %d comparisons in a row", n, symptom, times)
				}
				kit.MustBeEmpty(t, b.Inconsistencies(t))
				compares(t, k)
				if n := k.Counters().Repaired.Load(); n != 1 {
					t.Errorf("drift after further comparisons: got %d repairs, want 1", n)
				}
			})
		}
	})
}

// If the gate has released an order that is not yet marked released, its units count twice.
// Therefore the keeper compares nothing until all orders that the gate has released are marked
// released, even if the marking takes several batches.
func TestUnmarkedReleaseIsNoDrift(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"ack", "mark"} { // the failed step after which the order is not marked released
		servertest.Each(t, func(t *testing.T, s *servers.Stores) {
			b := bare.Open(t, s, kit.Sale("S", 30, 3))
			fail, failed := kit.Once(kit.Fault{Step: step})
			k := bare.KeeperOf(t, b.Store, bare.FaultyGate(b.Gate, fail), "S")
			if step == "mark" {
				k.Use(bare.FaultyStore(t, b.Store, fail), bare.FaultyGate(b.Gate, fail))
			}
			k.Finish(t)   // marks all orders so far released
			k.SetBatch(4) // one transaction for the four orders
			late := b.Reserve(t, "late", "", 1)
			for i := range 3 {
				b.Reserve(t, fmt.Sprint("buyer-", i), "", 1)
			}
			expire := func() {
				kit.MakeOverdue(t, b.Store.DB, late)
				check.Must(t, check.Err(b.Store.Expire(t.Context())))
			}
			pass := func() error { return k.Step(t.Context()) }
			if step == "mark" {
				check.Must(t, pass())
				expire()
				k.Work |= keeper.ReleaseHolds
			}
			if err := pass(); !errors.Is(err, kit.ErrFault) || !failed.Load() {
				t.Fatalf("pass of the keeper: got error %v, want that of the injected fault", err)
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
			k.Work |= keeper.CompareSums
			check.Must(t, pass())
			if row := b.Rows(t)[late]; row.RestoredAt != nil {
				t.Fatal("released order: it is marked, so this test proves nothing")
			}
			if symptom, _, _ := k.Symptom(); symptom != "" {
				t.Errorf("unmarked release: got symptom %q, want none", symptom)
			}
			compares(t, k)
			checkNoDrift(t, k, step)
		})
	}
}

// A keeper that was replaced during a comparison returns ErrFenced and finds no drift.
func TestFencedKeeperSeesNoDrift(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 30, 3))
		var next *bare.Keeper
		k := bare.KeeperOf(t, b.Store, tallyGate{Gate: b.Gate, before: func() { b.Reserve(t, "ann", "", 1) }, after: func() {
			next = b.Keeper(t, "S") // the next keeper commits the queued order
			next.Finish(t)
		}}, "S")
		k.Work |= keeper.CompareSums
		check.Is(t, k.Run(t.Context()), orders.ErrFenced)
		if symptom, times, _ := k.Symptom(); times > 0 || k.Counters().Compared.Load() > 0 {
			t.Errorf("fenced keeper: got symptom %q %d times, want no comparison", symptom, times)
		}
	})
}

// The first comparison may read a primary that is being replaced. A keeper that repairs drift
// after one comparison rebuilds a correct gate.
func TestOneComparisonIsNotEnough(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 30, 3))
		for _, hasty := range []bool{false, true} {
			reads := 0
			k := bare.KeeperOf(t, b.Store, tallyGate{Gate: b.Gate, alter: func(t *inventory.View) {
				if reads++; reads == 1 {
					t.Available++
				}
			}}, "S")
			if hasty {
				k.SetSymptom(keeper.UnitsTooMany, keeper.SightingsToRebuild-1)
			}
			for range keeper.SightingsToRebuild + 1 {
				k.Work |= keeper.CompareSums
				check.Must(t, k.Run(t.Context()))
			}
			if repaired := k.Counters().Repaired.Load() > 0; repaired != hasty {
				t.Errorf("keeper that repairs without confirmation (%v), after one comparison: got repaired %v, want %v", hasty, repaired, hasty)
			}
		}
	})
}

// A comparison that ignores the queue takes a busy sale for drift.
func TestComparisonNeedsTheQueue(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 30, 3))
		n := 0
		k := bare.KeeperOf(t, b.Store, tallyGate{
			Gate:   b.Gate,
			before: func() { n++; b.Reserve(t, fmt.Sprint("buyer-", n), "", 1) },
			alter:  func(t *inventory.View) { t.Orders, t.QueuedOrders = nil, 0 },
		}, "S")
		for range keeper.SightingsToRebuild {
			k.Work |= keeper.CompareSums
			check.Must(t, k.Run(t.Context()))
		}
		if k.Counters().Repaired.Load() == 0 {
			t.Error("comparison without the queue: got no repair, so the test proves nothing")
		}
	})
}

// If a reconciler sets the available units from the database's sums, the gate sells the units of
// queued orders twice. The comparison finds that drift.
func TestOverwritingAvailableOversells(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 3, 3))
		k := bare.KeeperOf(t, b.Store, b.Gate, "S")
		k.Finish(t)
		b.Reserve(t, "ann", "", 2)
		row, err := b.Store.Sale(t.Context(), "S")
		check.Must(t, err)
		b.Rdb.HSet(t.Context(), "sale:{S}", "available", row.Total-row.Sold)
		b.Reserve(t, "bob", "", 2) // oversells
		if a := b.Audit(t); a.Drift != -2 {
			t.Errorf("sale with an overwritten gate: got audit %+v, want drift -2", a)
		}
		compares(t, k)
		if a := b.Audit(t); k.Counters().Repaired.Load() != 1 || a.Oversold != 0 || a.Sold != 2 || len(b.Inconsistencies(t)) > 0 {
			t.Errorf("sale with drift: got %d repairs, want 1; audit %+v, violations %v", k.Counters().Repaired.Load(), a, b.Inconsistencies(t))
		}
	})
}
