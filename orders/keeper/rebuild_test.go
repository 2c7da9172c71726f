package keeper_test

import (
	"context"
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
	"flashsale/orders/keeper"
	"flashsale/orders/store"
)

// A rebuilding gate has things happen between the steps of a rebuild.
type rebuilding struct {
	keeper.Gate
	at    func(moment string)
	bare  *bare.Bare
	stale bool // the twin: what is staged stays as the census found it

	stages int
	shut   bool
}

// The moments between the steps, in their order.
const (
	staged    = "once the census is taken"
	shutting  = "before the gate is shut"
	closed    = "before the recount"
	recounted = "after the recount"
	opening   = "before the gate is opened"
	opened    = "once it is open"
)

var moments = []string{staged, shutting, closed, recounted, opening, opened}

func (g *rebuilding) Stage(ctx context.Context, d *inventory.Draft, c inventory.Changes) error {
	if g.stages++; g.stages == 1 {
		defer g.at(staged)
	} else if g.shut {
		g.at(recounted)
	}
	if g.stale && g.stages > 1 {
		return nil
	}
	return g.Gate.Stage(ctx, d, c)
}

func (g *rebuilding) BeginRebuild(ctx context.Context, sku string, epoch int64) error {
	g.at(shutting)
	err := g.Gate.BeginRebuild(ctx, sku, epoch)
	g.shut = true
	return err
}

func (g *rebuilding) Queue(ctx context.Context, sku, after string, limit int64) ([]inventory.Queued, error) {
	batch, err := g.Gate.Queue(ctx, sku, after, limit)
	if g.shut && len(batch) == 0 {
		g.at(closed)
	}
	return batch, err
}

func (g *rebuilding) Ack(ctx context.Context, sku string, orders []inventory.Queued, release []string) (int64, error) {
	left, err := g.Gate.Ack(ctx, sku, orders, release)
	if g.shut && left == 0 {
		g.at(closed)
	}
	return left, err
}

func (g *rebuilding) Install(ctx context.Context, d *inventory.Draft, was int64, v inventory.View) (bool, error) {
	if g.at(opening); g.stale { // or the count of the holds would give it away
		name := fmt.Sprintf("%d-%d", d.Fence, d.Attempt)
		v.Holds = g.bare.Rdb.HLen(ctx, "sale:{S}:holds:staged:"+name).Val()
		v.Buyers = g.bare.Rdb.HLen(ctx, "sale:{S}:buyers:staged:"+name).Val()
	}
	ok, err := g.Gate.Install(ctx, d, was, v)
	if ok {
		g.at(opened)
	}
	return ok, err
}

// counted is a sale with orders of every kind, of some of which the gate has
// not been told the end.
func counted(t testing.TB, b *bare.Bare) {
	t.Helper()
	kit.Put(t, b.Store, kit.Sale("S", 1000, 9))
	k := b.Keeper(t, "S")
	k.Finish(t)
	for _, told := range []bool{true, false} {
		b.Reserve(t, "ann", fmt.Sprint("k", told), 2)
		expired, cancelled, paid := b.Reserve(t, "eve", "", 1), b.Reserve(t, "tom", "", 2), b.Reserve(t, "joe", "", 3)
		b.Reserve(t, fmt.Sprint("bob", told), "", 1)
		k.Finish(t)
		kit.Overdue(t, b.Store.DB, expired)
		_, err := b.Store.Expire(t.Context())
		if err == nil {
			_, err = b.Store.Cancel(t.Context(), "tom", cancelled)
		}
		if err == nil {
			_, err = b.Store.Pay(t.Context(), "joe", paid, "ref")
		}
		check.Must(t, err)
		if told {
			k.Finish(t)
		}
	}
}

// changes are all that can become of an order. Where there is none to which it
// could, or the gate refuses, nothing happens.
var changes = map[string]func(t testing.TB, b *bare.Bare) error{
	"placed": func(t testing.TB, b *bare.Bare) error {
		return attempt(t, b, inventory.Request{Buyer: "new-" + uuid.NewString(), Key: "key", Quantity: 1})
	},
	"placed again": func(t testing.TB, b *bare.Bare) error {
		return attempt(t, b, inventory.Request{Buyer: "ann", Quantity: 1})
	},
	"paid": func(t testing.TB, b *bare.Bare) error {
		return firstOf(t, b, orders.PendingPayment, func(o orders.Order) error { _, err := b.Store.Pay(t.Context(), o.Buyer, o.ID, "ref"); return err })
	},
	"cancelled": func(t testing.TB, b *bare.Bare) error {
		return firstOf(t, b, orders.PendingPayment, func(o orders.Order) error { _, err := b.Store.Cancel(t.Context(), o.Buyer, o.ID); return err })
	},
	"expired": func(t testing.TB, b *bare.Bare) error {
		return firstOf(t, b, orders.PendingPayment, func(o orders.Order) error {
			kit.Overdue(t, b.Store.DB, o.ID)
			_, err := b.Store.Expire(t.Context())
			return err
		})
	},
	"paid late": func(t testing.TB, b *bare.Bare) error {
		return firstOf(t, b, orders.Expired, func(o orders.Order) error {
			return attempt(t, b, inventory.Request{Buyer: o.Buyer, Quantity: o.Quantity, Key: "ref", Pays: o.ID})
		})
	},
}

// first does something to the oldest order of a status.
func firstOf(t testing.TB, b *bare.Bare, status orders.Status, do func(orders.Order) error) error {
	rows := b.Rows(t)
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		if rows[id].Status == status {
			return do(rows[id])
		}
	}
	return nil
}

// attempt is reserve where a shut gate may refuse.
func attempt(t testing.TB, b *bare.Bare, r inventory.Request) (err error) {
	r.OrderID, r.SKU, r.Fingerprint = uuid.Must(uuid.NewV7()).String(), "S", "p"
	check.Eventually(t, "units no longer rest", func() bool {
		_, err = b.Gate.Reserve(t.Context(), r)
		return !errors.Is(err, inventory.ErrCoolingDown)
	})
	if errors.Is(err, inventory.ErrRebuilding) {
		return nil
	}
	return err
}

// A turn is what happens at a moment of a rebuild.
type turn struct{ moment, change string }

// rebuilt plays turns while a gate is rebuilt, and names what is wrong once all
// is at rest. No comparison has repaired anything.
func rebuiltAfter(t testing.TB, b *bare.Bare, stale bool, turns []turn) (wrong []string) {
	t.Helper()
	b.Empty(t)
	counted(t, b)
	g := &rebuilding{Gate: b.Gate, bare: b, stale: stale}
	g.at = func(moment string) {
		for i, turn := range turns {
			if turn.moment == moment {
				turns = slices.Concat(turns[:i:i], turns[i+1:])
				if err := changes[turn.change](t, b); err != nil {
					t.Errorf("%s %s: %v", turn.change, moment, err)
				}
				g.at(moment) // and what else happens then
				return
			}
		}
	}
	k := bare.KeeperOf(t, b.Store, g, "S")
	if err := k.RebuildGate(t.Context()); err != nil {
		return []string{err.Error()}
	}
	k.Use(b.Store, b.Gate)
	k.Finish(t)
	if n := k.Counters().Rebuilt.Load(); n != 1 {
		wrong = append(wrong, fmt.Sprintf("%d rebuilds", n))
	}
	if left := b.Rdb.Keys(t.Context(), "*staged*").Val(); len(left) > 0 {
		wrong = append(wrong, fmt.Sprintf("left behind: %v", left))
	}
	return append(wrong, b.Wrong(t)...)
}

// Whatever becomes of an order between the census and the recount is in the
// gate that is built. Installing what the census found would not do: the same
// check finds that out, for each change.
func TestRebuildHasWhatChanged(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 1, 1))
		for change := range changes {
			for _, moment := range []string{staged, shutting, closed} {
				turns := []turn{{moment, change}}
				if wrong := rebuiltAfter(t, b, false, turns); len(wrong) > 0 {
					t.Errorf("%s %s: %v", change, moment, wrong)
				}
				if reserves := change[:4] == "plac" || change == "paid late"; reserves && moment == closed {
					continue // refused
				}
				if wrong := rebuiltAfter(t, b, true, turns); len(wrong) == 0 {
					t.Errorf("%s %s: what the census found passes for right", change, moment)
				}
			}
		}
	})
}

// Any changes at any moments, and the twin is found out in all but few of them.
func TestRebuildWhileAnythingHappens(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 1, 1))
		kinds := slices.Sorted(maps.Keys(changes))
		var played, found int
		rapid.Check(t, func(r *rapid.T) {
			turns := make([]turn, rapid.IntRange(1, 8).Draw(r, "turns"))
			for i := range turns {
				turns[i] = turn{rapid.SampledFrom(moments).Draw(r, "moment"), rapid.SampledFrom(kinds).Draw(r, "change")}
			}
			if wrong := rebuiltAfter(t, b, false, turns); len(wrong) > 0 {
				r.Fatal(wrong)
			}
			if played++; played%4 == 0 && len(rebuiltAfter(t, b, true, turns)) > 0 {
				found++
			}
		})
		if t.Logf("the twin is found out %d times of %d", found, played/4); found == 0 {
			t.Error("the check can't fail")
		}
	})
}

// An order is paid after the recount has read it as pending, and before it marks
// what has ended: it has a hold in the gate that is built, and is to be confirmed
// like any. Marking whatever has ended by then would leave it its hold for good.
// (SQLite has one transaction at a time, so there is no such moment.)
func TestPaidWhileBeingRecounted(t *testing.T) {
	t.Parallel()
	b := bare.Open(t, servertest.Open(t, servers.KindReal), kit.Sale("S", 1, 1))
	paid := func(t *testing.T, then func()) []string {
		b.Empty(t)
		counted(t, b)
		struck := false
		k := b.Keeper(t, "S")
		k.Use(kit.Onto(t, b.Store.On, kit.InterruptedBy(b.Store.DB, "restored_at IS NULL AND sku", func() {
			struck = true
			check.OK(t, changes["paid"](t, b))
			then()
		})), b.Gate)
		if err := k.RebuildGate(t.Context()); err != nil || !struck {
			t.Fatal(err, struck)
		}
		k.Use(b.Store, b.Gate)
		k.Finish(t)
		return b.Wrong(t)
	}
	kit.None(t, paid(t, func() {}))
	if wrong := paid(t, func() {
		kit.Exec(t, b.Store.DB, "UPDATE orders SET restored_at = UTC_TIMESTAMP(3) WHERE status = ? AND restored_at IS NULL", orders.Paid)
	}); len(wrong) == 0 {
		t.Error("the check can't fail")
	}
}

// A keeper is paused at any moment of a rebuild, and another one takes over and
// rebuilds too. The first one, once it goes on, changes nothing; and whatever
// its moment was, it leaves nothing behind.
func TestTwoKeepersRebuild(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 1, 1))
		for _, moment := range moments[:5] {
			for change := range changes {
				b.Empty(t)
				counted(t, b)
				built, g := "", &rebuilding{Gate: b.Gate, bare: b}
				g.at = func(at string) {
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
					t.Errorf("%s: the replaced keeper has built the gate", moment)
				}
				if state := stateOf(t, b); built == "" || state != built {
					t.Errorf("%s: it changed\n%s\nto\n%s", moment, built, state)
				}
				if wrong := b.Wrong(t); len(wrong) > 0 {
					t.Errorf("%s, %s: %v", moment, change, wrong)
				}
				if left := b.Rdb.Keys(t.Context(), "*staged*").Val(); len(left) > 0 {
					t.Errorf("%s: left behind: %v", moment, left)
				}
			}
		}
	})
}

// A sale of several pages, some of whose buyers have orders on both sides of a
// page's end, changes everywhere between the first page and the next; once where
// there is a gate and once where there is none.
func TestRebuildPageByPage(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 1, 1))
		for _, missing := range []bool{false, true} {
			if servertest.Race && !missing {
				continue
			}
			b.Empty(t)
			counted(t, b)
			kit.Put(t, b.Store, kit.Sale("S", 10*store.CensusPage, 9))
			k := b.Keeper(t, "S")
			for from := range 5 {
				batch := make([]inventory.Queued, store.CensusPage/4)
				for i := range batch {
					batch[i] = kit.QueuedOrder(uuid.Must(uuid.NewV7()).String(), fmt.Sprintf("crowd-%d-%d", from, i/3), fmt.Sprint("key-", i), 1)
					batch[i].Epoch = b.Epoch(t)
				}
				check.Must(t, check.Err(b.Store.Commit(t.Context(), "S", k.Fence(), batch)))
			}
			if missing {
				check.Must(t, b.Rdb.FlushAll(t.Context()).Err())
			}
			g := &rebuilding{Gate: b.Gate, bare: b}
			g.at = func(string) {
				for what, change := range changes {
					if err := change(t, b); err != nil && !errors.Is(err, inventory.ErrNoGate) {
						t.Errorf("%s: %v", what, err)
					}
				}
			}
			k.Use(b.Store, g)
			check.Must(t, k.RebuildGate(t.Context()))
			if g.stages < 3 {
				t.Errorf("all of it in %d pages", g.stages)
			}
			k.Use(b.Store, b.Gate)
			k.Finish(t)
			if wrong := b.Wrong(t); len(wrong) > 0 {
				t.Errorf("missing %v: %v", missing, wrong[:min(len(wrong), 5)])
			}
		}
	})
}
