package keeper_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
	"flashsale/orders/shop"
)

// Drift may occur at any moment between orders, payments, cancellations and passes. A few
// comparisons repair it: the stores agree, nothing was oversold, and every unit that is left
// can be sold. Without drift, nothing is repaired.
func TestDriftIsRepairedAtAnyMoment(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 1, 1))
		names := slices.Sorted(maps.Keys(bare.Drifts))
		rapid.Check(t, func(r *rapid.T) {
			b.DeleteAll(t)
			b.Gate = bare.NewGate(b.Rdb, time.Nanosecond)
			put := kit.Sale("S", rapid.Int64Range(1, 12).Draw(r, "total"), 3)
			kit.PutSale(t, b.Store, put)
			sh := shop.New(shop.Config{Store: b.Store, Gate: b.Gate, Redis: b.Rdb, Log: check.Log(t)})
			k := b.Keeper(t, "S")
			k.Finish(t)
			drifted := false
			for range rapid.IntRange(5, 25).Draw(r, "steps") {
				switch rapid.SampledFrom([]string{"order", "order", "order", "cancel", "pay", "keep", "compare", "drift"}).Draw(r, "do") {
				case "order": // the gate may refuse the order
					buyer := rapid.SampledFrom([]string{"ann", "bob", "eve", "joe"}).Draw(r, "buyer")
					_, _ = sh.Place(t.Context(), shop.Placement{
						Buyer: buyer, SKU: "S", Quantity: rapid.Int64Range(1, 2).Draw(r, "quantity"), Async: true,
					})
				case "cancel", "pay":
					check.Must(t, changes[rapid.SampledFrom([]string{"paid", "cancelled"}).Draw(r, "end")](t, b))
					k.Work |= keeper.ReleaseHolds
				case "compare":
					k.Work |= rapid.SampledFrom([]keeper.Work{keeper.CompareSums, keeper.CompareSums | keeper.StartScan}).Draw(r, "work")
					fallthrough
				case "keep":
					if err := k.Step(t.Context()); err != nil {
						r.Fatalf("step of the keeper: got error %v, want none", err)
					}
				case "drift":
					drifted = rapid.Bool().Draw(r, "really") && bare.Drifts[rapid.SampledFrom(names).Draw(r, "which")](t, b) || drifted
				}
				row, err := b.Store.Sale(t.Context(), "S")
				check.Must(t, err)
				if sold := kit.OpenUnits(b.Rows(t)); sold != row.Sold || sold > row.Total {
					r.Fatalf("sale: got %d units in open orders, sold %d, total %d, want units equal to sold and at most the total", sold, row.Sold, row.Total)
				}
			}
			k.Work |= keeper.ReleaseHolds
			for range 2 { // the first repair may reveal another drift
				compares(t, k)
			}
			if n := k.Counters().Repaired.Load(); n > 0 && !drifted {
				r.Fatalf("keeper without drift: got %d repairs, want none", n)
			}
			if wrong := b.Inconsistencies(t); len(wrong) > 0 {
				r.Fatalf("gate after the repair: got violations %q, want none", wrong)
			}
			for i := range b.Audit(t).Available {
				b.Reserve(t, fmt.Sprint("fresh-", i), "", 1)
			}
			k.Finish(t)
			if a := b.Audit(t); a.Sold != a.Total || !a.Balanced {
				r.Fatalf("sale after the repair: got audit %+v, want all units sold", a)
			}
		})
	})
}
