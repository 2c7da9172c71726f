package orders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// A crowd of nodes sweeps the same overdue orders of one sale and gives their
// units back, while one after the other of them dies at the same step.
type sweepers struct {
	*bare
	nodes, orders, deaths int
	intruders             int64           // how many times a node keeps the sale without waiting for its turn
	gate                  func(Gate) Gate // what the nodes have for one

	dying    atomic.Int64 // how many have still to die
	intruder atomic.Int64 // what is left of intruders
	keeping  sync.Mutex   // the lock
	released atomic.Int64 // units that came back at the gate, whoever heard of it

	t testing.TB
}

// expire fills the sale, lets all orders be overdue, and has the nodes at them
// until none is pending or to be restored. It names what is wrong then.
func (w *sweepers) expire(t *testing.T, at fault) (wrong []string) {
	t.Helper()
	w.t = t
	w.released.Store(0)
	units := int64(0)
	var ids []string
	for i := range w.orders {
		quantity := int64(1 + i%3)
		ids = append(ids, w.reserve(t, fmt.Sprint("buyer-", i), "", quantity))
		units += quantity
	}
	w.bare.keeper(t, "S").finish(t)
	overdue(t, w.store, ids...)

	w.dying.Store(int64(w.deaths))
	w.intruder.Store(w.intruders)
	var g errgroup.Group
	for range w.nodes {
		g.Go(func() error { return w.node(t, at) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if left := w.dying.Load(); left > 0 {
		t.Fatalf("%d of %d nodes did not die %v", left, w.deaths, at)
	}

	if got := w.released.Load(); got != units {
		wrong = append(wrong, fmt.Sprintf("%d units came back of %d", got, units))
	}
	if a := w.audit(t); !a.Balanced || a.Available != a.Total || a.Sold+a.Restoring+a.Held != 0 {
		wrong = append(wrong, fmt.Sprintf("audit %+v", a))
	}
	if view, err := w.bare.gate.Look(t.Context(), "S"); err != nil || view.Holds != 0 {
		wrong = append(wrong, fmt.Sprintf("%d holds are left (%v)", view.Holds, err))
	}
	return append(wrong, brokenClosing(t, w.store)...)
}

// node sweeps and keeps in turn until all is done or it is dead.
func (w *sweepers) node(t *testing.T, at fault) error {
	dead := false
	plan := plan(func(step fault) error {
		if !dead && step == at && w.dying.Add(-1) >= 0 {
			dead = true
		}
		if dead {
			return errFault
		}
		return nil
	})
	store, gate := faultyStore(t, w.store, plan), w.gate(faultyGate{unitGate{w.bare.gate, &w.released}, plan})
	for !dead && t.Context().Err() == nil {
		_, err := store.Expire(t.Context())
		if err == nil {
			var done bool
			if done, err = w.keep(t, store, gate); done {
				return nil
			}
		}
		if err != nil && !errors.Is(err, errFault) && !errors.Is(err, ErrFenced) && !errors.Is(err, inventory.ErrFenced) {
			return err
		}
	}
	return t.Context().Err()
}

// keep gives back what is ended, when it is this node's turn, or without
// asking. It tells whether everything is done.
func (w *sweepers) keep(t *testing.T, store *Store, gate Gate) (done bool, err error) {
	if w.intruder.Add(-1) < 0 {
		w.keeping.Lock()
		defer w.keeping.Unlock()
	}
	var left int64
	err = w.store.db.WithContext(t.Context()).Model(&Order{}).Where("status = ? OR restored_at IS NULL", PendingPayment).Count(&left).Error
	if err != nil || left == 0 {
		return true, err
	}
	sale, err := store.TakeOver(t.Context(), "S")
	if err != nil {
		return false, err
	}
	if err := gate.Claim(t.Context(), "S", sale.Fence); err != nil {
		return false, err
	}
	k := &keeper{
		sku: "S", fence: sale.Fence, store: store, together: newConvoy(store, w.orders, new(Counters)), gate: gate,
		batch: max(2, w.orders/20), log: quiet(t), count: new(Counters),
		tell: func(context.Context, []verdict) {}, committed: func(*Commit) {},
	}
	k.ended.Store(true)
	return false, k.run(t.Context())
}

// unitGate counts the units that come back at the gate itself: a node that
// dies of the answer has given them back all the same.
type unitGate struct {
	Gate
	units *atomic.Int64
}

func (g unitGate) Release(ctx context.Context, sku string, m inventory.Mandate, ids []string) (int64, error) {
	n, err := g.Gate.Release(ctx, sku, m, ids)
	g.units.Add(n)
	return n, err
}

// sweepingCrowd is a hundred nodes where the stores are real, and some where they are not.
func sweepingCrowd(t *testing.T, s *servers.Stores) *sweepers {
	t.Helper()
	w := &sweepers{bare: openBare(t, s, sale("S", 300, 3)), nodes: 100, orders: 100, deaths: 10}
	if s.Mini != nil {
		w.nodes, w.orders = 20, 40
	}
	w.gate, w.intruders = func(g Gate) Gate { return g }, int64(w.nodes)/5
	return w
}

// A hundred nodes on the same overdue orders, ten of which die, one after the
// other, at the same step between the close and the mark: each unit comes back
// once, and each order is marked.
func TestHundredSweepersDieAtEachStep(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		w := sweepingCrowd(t, s)
		for _, step := range []string{"close", "release", "mark"} {
			for _, at := range []fault{{step: step}, {step: step, after: true}} {
				t.Run(at.String(), func(t *testing.T) {
					w.deaths = w.nodes / 10
					if at == (fault{step: "close", after: true}) {
						w.deaths = 1 // who closes, closes all of them
					}
					if wrong := w.expire(t, at); len(wrong) > 0 {
						t.Error(wrong)
					}
				})
			}
		}
	})
}

// The same crowd finds out a gate that gives back without looking for the hold,
// and nodes that mark before they have given back.
func TestHundredSweepersCatchBrokenRestore(t *testing.T) {
	for name, broken := range map[string]struct {
		at   fault
		gate func(w *sweepers) func(Gate) Gate
	}{
		"no look at the hold": {fault{step: "release", after: true}, func(w *sweepers) func(Gate) Gate {
			return func(g Gate) Gate { return blindGate{g, w} }
		}},
		"marked before": {fault{step: "release"}, func(w *sweepers) func(Gate) Gate {
			return func(g Gate) Gate { return markingGate{g, w.store} }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := sweepingCrowd(t, servertest.Open(t, servers.KindEmbedded))
			w.deaths, w.intruders = 2, 0 // who is fenced off dies with nothing done
			w.gate = broken.gate(w)
			if wrong := w.expire(t, broken.at); len(wrong) == 0 {
				t.Error("not caught")
			}
		})
	}
}

// blindGate gives back by the rows, whether or not there is a hold.
type blindGate struct {
	Gate
	w *sweepers
}

func (g blindGate) Release(ctx context.Context, sku string, m inventory.Mandate, ids []string) (int64, error) {
	n, err := g.Gate.Release(ctx, sku, m, ids)
	var due int64
	for id, o := range rowsOf(g.w.t, g.w.store) {
		if slices.Contains(ids, id) {
			due += o.Quantity
		}
	}
	if err == nil && due > n {
		g.w.released.Add(due - n)
		err = g.w.rdb.HIncrBy(ctx, "sale:{"+sku+"}", "available", due-n).Err()
	}
	return due, err
}

// markingGate is a keeper that marks first.
type markingGate struct {
	Gate
	store *Store
}

func (g markingGate) Release(ctx context.Context, sku string, m inventory.Mandate, ids []string) (int64, error) {
	if err := g.store.MarkRestored(ctx, sku, m.Fence, ids); err != nil {
		return 0, err
	}
	return g.Gate.Release(ctx, sku, m, ids)
}
