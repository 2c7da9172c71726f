package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
	"flashsale/orders/store"
)

// sweepers are nodes that expire and release the same overdue orders of one sale. Some of them
// die at the same step.
type sweepers struct {
	*bare.Bare
	nodes, orders, deaths int
	intruders             int64                         // number of passes without the lock
	gate                  func(keeper.Gate) keeper.Gate // wraps the gate of each node

	dying    atomic.Int64 // number of nodes that still have to die
	intruder atomic.Int64 // number of passes without the lock that are left
	keeping  sync.Mutex   // the lock
	released atomic.Int64 // units released at the gate, even if the answer was lost

	t testing.TB
}

// expire places orders, makes them overdue, and runs the nodes until every order is expired and
// marked released. It returns what is wrong then.
func (w *sweepers) expire(t *testing.T, at kit.Fault) (wrong []string) {
	t.Helper()
	w.t = t
	w.released.Store(0)
	units := int64(0)
	var ids []string
	for i := range w.orders {
		quantity := int64(1 + i%3)
		ids = append(ids, w.Reserve(t, fmt.Sprint("buyer-", i), "", quantity))
		units += quantity
	}
	w.Bare.Keeper(t, "S").Finish(t)
	kit.MakeOverdue(t, w.Store.DB, ids...)

	w.dying.Store(int64(w.deaths))
	w.intruder.Store(w.intruders)
	var g errgroup.Group
	for range w.nodes {
		g.Go(func() error { return w.node(t, at) })
	}
	check.Must(t, g.Wait())
	if left := w.dying.Load(); left > 0 {
		t.Fatalf("sweepers: %d of %d nodes did not die %v, want all dead", left, w.deaths, at)
	}

	if got := w.released.Load(); got != units {
		wrong = append(wrong, fmt.Sprintf("got %d units released, want %d", got, units))
	}
	if a := w.Audit(t); !a.Balanced || a.Available != a.Total || a.Sold+a.Restoring+a.Queued != 0 {
		wrong = append(wrong, fmt.Sprintf("got audit %+v, want all units available", a))
	}
	if view, err := w.Bare.Gate.Inspect(t.Context(), "S"); err != nil || view.Holds != 0 {
		wrong = append(wrong, fmt.Sprintf("got %d holds (%v), want none", view.Holds, err))
	}
	return append(wrong, kit.InconsistentOrders(t, w.Store.DB)...)
}

// node sweeps and keeps in turn until all orders are released or the node is dead.
func (w *sweepers) node(t *testing.T, at kit.Fault) error {
	dead := false
	plan := kit.Plan(func(step kit.Fault) error {
		if !dead && step == at && w.dying.Add(-1) >= 0 {
			dead = true
		}
		if dead {
			return kit.ErrFault
		}
		return nil
	})
	store, gate := bare.FaultyStore(t, w.Store, plan), w.gate(bare.FaultyGate(unitGate{w.Bare.Gate, &w.released}, plan))
	for !dead && t.Context().Err() == nil {
		_, err := store.Expire(t.Context())
		if err == nil {
			var done bool
			if done, err = w.keep(t, store, gate); done {
				return nil
			}
		}
		busy := errors.Is(err, orders.ErrUnavailable) // many nodes lock the sale's row, so the next sweep tries again
		if err != nil && !busy && !errors.Is(err, kit.ErrFault) && !errors.Is(err, orders.ErrFenced) {
			return err
		}
	}
	return t.Context().Err()
}

// keep runs a keeper that releases ended orders, with the lock or as an intruder without it. It
// reports whether every order is released.
func (w *sweepers) keep(t *testing.T, st *store.Store, gate keeper.Gate) (done bool, err error) {
	if w.intruder.Add(-1) < 0 {
		w.keeping.Lock()
		defer w.keeping.Unlock()
	}
	var left int64
	err = w.Store.DB.WithContext(t.Context()).Model(&orders.Order{}).Where("status = ? OR restored_at IS NULL", orders.PendingPayment).Count(&left).Error
	if err != nil || left == 0 {
		return true, err
	}
	k, err := bare.TakeOver(t, st, gate, max(2, w.orders/20), "S")
	if err != nil {
		return false, err
	}
	return false, (&bare.Keeper{Keeper: k, Work: keeper.ReleaseHolds}).Run(t.Context())
}

// A unitGate counts the units that the real gate releases. A node that dies of a lost answer has
// released them all the same.
type unitGate struct {
	keeper.Gate
	units *atomic.Int64
}

func (g unitGate) ReleaseHolds(ctx context.Context, sku string, epoch int64, ids []string) (int64, error) {
	n, err := g.Gate.ReleaseHolds(ctx, sku, epoch, ids)
	g.units.Add(n)
	return n, err
}

// sweepingCrowd returns 100 nodes on real stores, and fewer on embedded ones.
func sweepingCrowd(t *testing.T, s *servers.Stores) *sweepers {
	t.Helper()
	w := &sweepers{Bare: bare.Open(t, s, kit.Sale("S", 300, 3)), nodes: 100, orders: 100, deaths: 10}
	if s.Mini != nil {
		w.nodes, w.orders = 20, 40
	}
	w.gate, w.intruders = func(g keeper.Gate) keeper.Gate { return g }, int64(w.nodes)/5
	return w
}

// Many nodes, 100 on real stores, sweep the same overdue orders. Usually a tenth of them crash at
// the same step: closing the orders, releasing them at the gate, or marking them released. Each
// unit is released once, and each order is marked released.
func TestHundredSweepersDieAtEachStep(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		w := sweepingCrowd(t, s)
		for _, step := range []string{"close", "release", "mark"} {
			for _, at := range []kit.Fault{{Step: step}, {Step: step, After: true}} {
				t.Run(at.String(), func(t *testing.T) {
					w.deaths = w.nodes / 10
					if at == (kit.Fault{Step: "close", After: true}) {
						w.deaths = 1 // the first node closes all orders
					}
					kit.MustBeEmpty(t, w.expire(t, at))
				})
			}
		}
	})
}

// The same nodes catch a gate that releases units without a hold, and keepers that mark orders
// released before the gate releases them.
func TestHundredSweepersCatchBrokenRelease(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]struct {
		at   kit.Fault
		gate func(w *sweepers) func(keeper.Gate) keeper.Gate
	}{
		"released without a hold": {kit.Fault{Step: "release", After: true}, func(w *sweepers) func(keeper.Gate) keeper.Gate {
			return func(g keeper.Gate) keeper.Gate { return blindGate{g, w} }
		}},
		"marked released too early": {kit.Fault{Step: "release"}, func(w *sweepers) func(keeper.Gate) keeper.Gate {
			return func(g keeper.Gate) keeper.Gate { return markingGate{g, w.Store} }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := sweepingCrowd(t, servertest.Open(t, servers.KindEmbedded))
			w.deaths, w.intruders = 2, 0 // no passes without the lock: one could fence off a node before the node reaches its fault
			w.gate = broken.gate(w)
			if wrong := w.expire(t, broken.at); len(wrong) == 0 {
				t.Error("broken release: got no violation, want one")
			}
		})
	}
}

// A blindGate releases the units of the rows, whether or not there is a hold.
type blindGate struct {
	keeper.Gate
	w *sweepers
}

func (g blindGate) ReleaseHolds(ctx context.Context, sku string, epoch int64, ids []string) (int64, error) {
	n, err := g.Gate.ReleaseHolds(ctx, sku, epoch, ids)
	var due int64
	for id, o := range kit.RowsOf(g.w.t, g.w.Store.DB) {
		if slices.Contains(ids, id) {
			due += o.Quantity
		}
	}
	if err == nil && due > n {
		g.w.released.Add(due - n)
		err = g.w.Rdb.HIncrBy(ctx, "sale:{"+sku+"}", "available", due-n).Err()
	}
	return due, err
}

// A markingGate marks orders released before it releases them.
type markingGate struct {
	keeper.Gate
	store *store.Store
}

func (g markingGate) ReleaseHolds(ctx context.Context, sku string, epoch int64, ids []string) (int64, error) {
	sale, err := g.store.Sale(ctx, sku)
	if err != nil {
		return 0, err
	}
	if err := g.store.MarkOrdersReleased(ctx, sku, sale.Fence, ids); err != nil {
		return 0, err
	}
	return g.Gate.ReleaseHolds(ctx, sku, epoch, ids)
}
