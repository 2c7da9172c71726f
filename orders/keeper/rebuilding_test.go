package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"

	"flashsale/inventory"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
)

// A rebuildingGate calls onMoment at each moment of a rebuild.
type rebuildingGate struct {
	keeper.Gate
	onMoment     func(moment string)
	bare         *bare.Bare
	dropsChanges bool // a broken twin: the new gate lacks the changes since the snapshot

	stages int
	shut   bool
}

// The moments of a rebuild, in order.
const (
	staged    = "after the snapshot"
	shutting  = "before the gate is shut"
	closed    = "before the recount"
	recounted = "after the recount"
	opening   = "before the gate is opened"
	opened    = "after the gate is opened"
)

var moments = []string{staged, shutting, closed, recounted, opening, opened}

func (g *rebuildingGate) Stage(ctx context.Context, d *inventory.Draft, c inventory.Changes) error {
	if g.stages++; g.stages == 1 {
		defer g.onMoment(staged)
	} else if g.shut {
		g.onMoment(recounted)
	}
	if g.dropsChanges && g.stages > 1 {
		return nil
	}
	return g.Gate.Stage(ctx, d, c)
}

func (g *rebuildingGate) BeginRebuild(ctx context.Context, sku string, epoch int64) error {
	g.onMoment(shutting)
	err := g.Gate.BeginRebuild(ctx, sku, epoch)
	g.shut = true
	return err
}

func (g *rebuildingGate) ReadQueue(ctx context.Context, sku, after string, limit int64) ([]inventory.QueuedOrder, error) {
	batch, err := g.Gate.ReadQueue(ctx, sku, after, limit)
	if g.shut && len(batch) == 0 {
		g.onMoment(closed)
	}
	return batch, err
}

func (g *rebuildingGate) Ack(ctx context.Context, sku string, orders []inventory.QueuedOrder, release []string) (int64, error) {
	left, err := g.Gate.Ack(ctx, sku, orders, release)
	if g.shut && left == 0 {
		g.onMoment(closed)
	}
	return left, err
}

func (g *rebuildingGate) Install(ctx context.Context, d *inventory.Draft, was int64, v inventory.View) (bool, error) {
	if g.onMoment(opening); g.dropsChanges { // otherwise Install would find the wrong number of holds
		name := fmt.Sprintf("%d-%d", d.Fence, d.Attempt)
		v.Holds = g.bare.Rdb.HLen(ctx, "sale:{S}:holds:staged:"+name).Val()
		v.Buyers = g.bare.Rdb.HLen(ctx, "sale:{S}:buyers:staged:"+name).Val()
	}
	ok, err := g.Gate.Install(ctx, d, was, v)
	if ok {
		g.onMoment(opened)
	}
	return ok, err
}

// mixedSale puts a sale with pending, paid, cancelled and expired orders. The gate has released
// half of the ended orders.
func mixedSale(t testing.TB, b *bare.Bare) {
	t.Helper()
	kit.PutSale(t, b.Store, kit.Sale("S", 1000, 9))
	k := b.Keeper(t, "S")
	k.Finish(t)
	for _, released := range []bool{true, false} {
		b.Reserve(t, "ann", fmt.Sprint("k", released), 2)
		expired, cancelled, paid := b.Reserve(t, "eve", "", 1), b.Reserve(t, "tom", "", 2), b.Reserve(t, "joe", "", 3)
		b.Reserve(t, fmt.Sprint("bob", released), "", 1)
		k.Finish(t)
		kit.MakeOverdue(t, b.Store.DB, expired)
		_, err := b.Store.Expire(t.Context())
		if err == nil {
			_, err = b.Store.Cancel(t.Context(), "tom", cancelled)
		}
		if err == nil {
			_, err = b.Store.Pay(t.Context(), "joe", paid, "ref")
		}
		check.Must(t, err)
		if released {
			k.Finish(t)
		}
	}
}

// changes are the changes that an order can go through, by name. A change does nothing if no
// order has the right status or if the gate is shut.
var changes = map[string]func(t testing.TB, b *bare.Bare) error{
	"placed": func(t testing.TB, b *bare.Bare) error {
		return tryReserve(t, b, inventory.Request{Buyer: "new-" + uuid.NewString(), Key: "key", Quantity: 1})
	},
	"placed again": func(t testing.TB, b *bare.Bare) error {
		return tryReserve(t, b, inventory.Request{Buyer: "ann", Quantity: 1})
	},
	"paid": func(t testing.TB, b *bare.Bare) error {
		return firstOf(t, b, orders.PendingPayment, func(o orders.Order) error { _, err := b.Store.Pay(t.Context(), o.Buyer, o.ID, "ref"); return err })
	},
	"cancelled": func(t testing.TB, b *bare.Bare) error {
		return firstOf(t, b, orders.PendingPayment, func(o orders.Order) error { _, err := b.Store.Cancel(t.Context(), o.Buyer, o.ID); return err })
	},
	"expired": func(t testing.TB, b *bare.Bare) error {
		return firstOf(t, b, orders.PendingPayment, func(o orders.Order) error {
			kit.MakeOverdue(t, b.Store.DB, o.ID)
			_, err := b.Store.Expire(t.Context())
			return err
		})
	},
	"voided": func(t testing.TB, b *bare.Bare) error {
		return firstOf(t, b, orders.Paid, func(o orders.Order) error {
			_, err := b.Store.Void(t.Context(), "S", []string{o.ID}, "bots")
			return err
		})
	},
	"paid late": func(t testing.TB, b *bare.Bare) error {
		return firstOf(t, b, orders.Expired, func(o orders.Order) error {
			return tryReserve(t, b, inventory.Request{Buyer: o.Buyer, Quantity: o.Quantity, Key: "ref", PaysOrder: o.ID})
		})
	},
}

// firstOf calls do with the oldest order of a status, if there is one.
func firstOf(t testing.TB, b *bare.Bare, status orders.Status, do func(orders.Order) error) error {
	rows := b.Rows(t)
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		if rows[id].Status == status {
			return do(rows[id])
		}
	}
	return nil
}

// tryReserve reserves when the units no longer cool down. If the gate is shut, it does nothing.
func tryReserve(t testing.TB, b *bare.Bare, r inventory.Request) (err error) {
	r.OrderID, r.SKU, r.Fingerprint = uuid.Must(uuid.NewV7()).String(), "S", "p"
	check.Eventually(t, "units have cooled down", func() bool {
		_, err = b.Gate.Reserve(t.Context(), r)
		return !errors.Is(err, inventory.ErrCoolingDown)
	})
	if errors.Is(err, inventory.ErrRebuilding) {
		return nil
	}
	return err
}

// An event is a change at a moment of a rebuild.
type event struct{ moment, change string }

// rebuiltAfter rebuilds the gate of a mixed sale while the events happen, and returns what is
// wrong afterwards. No comparison runs that could repair it.
func rebuiltAfter(t testing.TB, b *bare.Bare, dropsChanges bool, events []event) (wrong []string) {
	t.Helper()
	b.DeleteAll(t)
	mixedSale(t, b)
	g := &rebuildingGate{Gate: b.Gate, bare: b, dropsChanges: dropsChanges}
	g.onMoment = func(moment string) {
		for i, e := range events {
			if e.moment == moment {
				events = slices.Concat(events[:i:i], events[i+1:])
				if err := changes[e.change](t, b); err != nil {
					t.Errorf("change %s %s of the rebuild: got error %v, want none", e.change, moment, err)
				}
				g.onMoment(moment) // the next event at this moment
				return
			}
		}
	}
	k := bare.KeeperOf(t, b.Store, g, "S")
	if err := k.RebuildGate(t.Context()); err != nil {
		return []string{err.Error()}
	}
	k.Use(b.Store, b.Gate)
	sale, err := b.Store.Sale(t.Context(), "S")
	check.Must(t, err)
	want := int64(1)
	if sale.Mode == orders.ModeChanging { // an order was taken back after the recount
		want = 2
	}
	k.Finish(t)
	if n := k.Counters().Rebuilt.Load(); n != want {
		wrong = append(wrong, fmt.Sprintf("got %d rebuilds, want %d", n, want))
	}
	if left := b.Rdb.Keys(t.Context(), "*staged*").Val(); len(left) > 0 {
		wrong = append(wrong, fmt.Sprintf("staged keys are left: %v", left))
	}
	return append(wrong, b.Inconsistencies(t)...)
}
