package keeper_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

// A rebuilt gate contains every change between the snapshot and the recount. The same check
// fails for a rebuild that drops the changes, whatever the change is.
func TestRebuildHasWhatChanged(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 1, 1))
		for change := range changes {
			for _, moment := range []string{staged, shutting, closed} {
				events := []event{{moment, change}}
				if wrong := rebuiltAfter(t, b, false, events); len(wrong) > 0 {
					t.Errorf("change %s %s of the rebuild: got violations %v, want none", change, moment, wrong)
				}
				if reserves := change[:4] == "plac" || change == "paid late"; reserves && moment == closed {
					continue // the shut gate refuses the order
				}
				if wrong := rebuiltAfter(t, b, true, events); len(wrong) == 0 {
					t.Errorf("change %s %s of a rebuild that drops changes: got no violation, want one", change, moment)
				}
			}
		}
	})
}

// Any changes may happen at any moments of a rebuild. The same check catches a rebuild that
// drops the changes.
func TestRebuildWhileAnythingHappens(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 1, 1))
		kinds := slices.Sorted(maps.Keys(changes))
		var played, caught int
		rapid.Check(t, func(r *rapid.T) {
			events := make([]event, rapid.IntRange(1, 8).Draw(r, "events"))
			for i := range events {
				events[i] = event{rapid.SampledFrom(moments).Draw(r, "moment"), rapid.SampledFrom(kinds).Draw(r, "change")}
			}
			if wrong := rebuiltAfter(t, b, false, events); len(wrong) > 0 {
				r.Fatalf("rebuild during the changes: got violations %q, want none", wrong)
			}
			if played++; played%4 == 0 && len(rebuiltAfter(t, b, true, events)) > 0 {
				caught++
			}
		})
		if t.Logf("a rebuild that drops changes was caught %d times of %d", caught, played/4); caught == 0 {
			t.Error("rebuilds that drop changes: none was caught, so this test proves nothing")
		}
	})
}

// An order is paid after the recount has read it as pending, and before the recount marks the
// ended orders. The new gate has a hold of this order, so the recount must not mark it: a
// keeper would then never drop its hold, and the hold would stay. (SQLite runs one
// transaction at a time, so this cannot happen there.)
func TestOrderPaidDuringRecount(t *testing.T) {
	t.Parallel()
	b := bare.Open(t, servertest.Open(t, servers.KindReal), kit.Sale("S", 1, 1))
	paid := func(t *testing.T, then func()) []string {
		b.DeleteAll(t)
		mixedSale(t, b)
		reached := false
		k := b.Keeper(t, "S")
		k.Use(kit.Onto(t, b.Store.WithPool, kit.InterruptedBy(b.Store.DB, "restored_at IS NULL AND sku", func() {
			reached = true
			check.OK(t, changes["paid"](t, b))
			then()
		})), b.Gate)
		if err := k.RebuildGate(t.Context()); err != nil || !reached {
			t.Fatalf("rebuild: got error %v, order paid during the recount: %v, want no error and true", err, reached)
		}
		k.Use(b.Store, b.Gate)
		k.Finish(t)
		return b.Inconsistencies(t)
	}
	kit.MustBeEmpty(t, paid(t, func() {}))
	if wrong := paid(t, func() {
		kit.Exec(t, b.Store.DB, "UPDATE orders SET restored_at = UTC_TIMESTAMP(3) WHERE status = ? AND restored_at IS NULL", orders.Paid)
	}); len(wrong) == 0 {
		t.Error("recount that marks every ended order: got no violation, so this test proves nothing")
	}
}

// A keeper is paused at any moment of a rebuild, while another keeper takes over and rebuilds
// the gate. When the first keeper resumes, it changes nothing and leaves no staged keys.
func TestTwoKeepersRebuild(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 1, 1))
		for _, moment := range moments[:5] {
			for change := range changes {
				b.DeleteAll(t)
				mixedSale(t, b)
				built, g := "", &rebuildingGate{Gate: b.Gate, bare: b}
				g.onMoment = func(at string) {
					if at != moment || built != "" {
						return
					}
					check.OK(t, changes[change](t, b))
					second := b.Keeper(t, "S")
					check.OK(t, second.RebuildGate(t.Context()))
					second.Finish(t)
					built = stateOf(t, b)
				}
				first := bare.KeeperOf(t, b.Store, g, "S")
				if first.RebuildGate(t.Context()) == nil {
					t.Errorf("rebuild of the replaced keeper, %s: got no error, want one", moment)
				}
				if state := stateOf(t, b); built == "" || state != built {
					t.Errorf("stores after the replaced keeper, %s: got state\n%s\nwant\n%s", moment, state, built)
				}
				if wrong := b.Inconsistencies(t); len(wrong) > 0 {
					t.Errorf("gate after two keepers, %s, %s: got violations %v, want none", moment, change, wrong)
				}
				if left := b.Rdb.Keys(t.Context(), "*staged*").Val(); len(left) > 0 {
					t.Errorf("staged keys after two keepers, %s: got %v, want none", moment, left)
				}
			}
		}
	})
}

// Orders change in every way between the pages of a rebuild, with a gate and without one. Some
// buyers have orders on two pages.
func TestRebuildPageByPage(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 1, 1))
		for _, missing := range []bool{false, true} {
			if servertest.Race && !missing {
				continue
			}
			b.DeleteAll(t)
			mixedSale(t, b)
			kit.PutSale(t, b.Store, kit.Sale("S", 10*store.SnapshotPageSize, 9))
			k := b.Keeper(t, "S")
			for from := range 5 {
				batch := make([]inventory.QueuedOrder, store.SnapshotPageSize/4)
				for i := range batch {
					batch[i] = kit.QueuedOrder(uuid.Must(uuid.NewV7()).String(), fmt.Sprintf("crowd-%d-%d", from, i/3), fmt.Sprint("key-", i), 1)
					batch[i].Epoch = b.Epoch(t)
				}
				check.Must(t, check.Err(b.Store.Commit(t.Context(), "S", k.Fence(), batch)))
			}
			if missing {
				check.Must(t, b.Rdb.FlushAll(t.Context()).Err())
			}
			g := &rebuildingGate{Gate: b.Gate, bare: b}
			g.onMoment = func(string) {
				for what, change := range changes {
					if err := change(t, b); err != nil && !errors.Is(err, inventory.ErrNoGate) {
						t.Errorf("change %s during the rebuild: got error %v, want none or ErrNoGate", what, err)
					}
				}
			}
			k.Use(b.Store, g)
			check.Must(t, k.RebuildGate(t.Context()))
			if g.stages < 3 {
				t.Errorf("rebuild: got %d calls of Stage, want 3 or more", g.stages)
			}
			k.Use(b.Store, b.Gate)
			k.Finish(t)
			if wrong := b.Inconsistencies(t); len(wrong) > 0 {
				t.Errorf("rebuild, gate missing %v: got violations %v, want none", missing, wrong[:min(len(wrong), 5)])
			}
		}
	})
}
