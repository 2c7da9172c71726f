package orders

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// busy is a sale of 20 in which something of everything is under way: one
// order each paid, cancelled and expired of which the gate does not know yet,
// one pending, two in the queue, and a restock.
func busy(t *testing.T, s *servers.Stores) *bare {
	t.Helper()
	put := sale("S", 15, 3)
	b := openBare(t, s, put)
	paid, cancelled, expired := b.reserve(t, "ann", "k", 3), b.reserve(t, "bob", "k", 2), b.reserve(t, "eve", "", 1)
	b.reserve(t, "joe", "", 1)
	b.keeper(t, "S").finish(t)
	ctx := t.Context()
	if _, err := b.store.Pay(ctx, "ann", paid, "ref"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Cancel(ctx, "bob", cancelled); err != nil {
		t.Fatal(err)
	}
	overdue(t, b.store, expired)
	if _, err := b.store.Expire(ctx); err != nil {
		t.Fatal(err)
	}
	b.reserve(t, "joe", "k", 2)
	b.reserve(t, "sue", "", 3)
	put.Total = 20
	if _, err := b.store.PutSale(ctx, put); err != nil {
		t.Fatal(err)
	}
	return b
}

// wrongWithBusy names what is not as it must be once all of that is settled.
func (b *bare) wrongWithBusy(t *testing.T) (wrong []string) {
	t.Helper()
	want := Audit{SKU: "S", Total: 20, Available: 11, Sold: 9, Paid: 3, Pending: 6, Balanced: true}
	if a := b.audit(t); a != want {
		wrong = append(wrong, fmt.Sprintf("audit %+v, want %+v", a, want))
	}
	view, err := b.gate.Look(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if view.Holds != 3 {
		wrong = append(wrong, fmt.Sprintf("%d holds for 3 pending orders", view.Holds))
	}
	for id, o := range b.rows(t) {
		if ended := o.Status != PendingPayment; ended != (o.RestoredAt != nil) {
			wrong = append(wrong, fmt.Sprintf("%s is %s, restored at %v", id, o.Status, o.RestoredAt))
		}
	}
	return wrong
}

// eachStep runs f for a fault before and after each step of a keeper, each time
// with a busy sale; for the steps of a rebuild one has been asked for.
func eachStep(t *testing.T, f func(t *testing.T, b *bare, at fault)) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		for i, step := range []string{"queue", "commit", "settle", "release", "confirm", "mark", "terms", "stage", "shut", "recount", "install"} {
			for _, at := range []fault{{step: step}, {step: step, after: true}} {
				t.Run(at.String(), func(t *testing.T) {
					b := busy(t, s)
					defer b.empty(t) // one pair of stores serves all
					if i >= 7 {
						if _, err := b.store.AskRebuild(t.Context(), "S"); err != nil {
							t.Fatal(err)
						}
					}
					f(t, b, at)
				})
			}
		}
	})
}

// A keeper dies before or after any of its steps: the next one repeats what is
// not known to be done, and the dead one, should it come back, changes nothing.
func TestKeeperDiesAtAnyStep(t *testing.T) {
	eachStep(t, func(t *testing.T, b *bare, at fault) {
		die, dead := fromThenOn(at)
		first := keeperOf(t, faultyStore(t, b.store, die), faultyGate{b.gate, die}, "S")
		if err := first.run(t.Context()); !errors.Is(err, errFault) || !dead.Load() {
			t.Fatalf("it did not die: %v", err)
		}
		b.keeper(t, "S").finish(t)
		if wrong := b.wrongWithBusy(t); len(wrong) > 0 {
			t.Fatal(wrong)
		}
		// It wakes up, sees the stores again, and goes on from the start.
		first.store, first.gate = b.store, b.gate
		first.ended.Store(true)
		first.inspect.Store(true)
		b.reserve(t, "tom", "", 1)
		if err := first.run(t.Context()); !errors.Is(err, ErrFenced) {
			t.Errorf("the first keeper came back: %v", err)
		}
		b.keeper(t, "S").finish(t)
		if a := b.audit(t); !a.Balanced || a.Sold != 10 || a.Available != 10 {
			t.Errorf("after it came back: %+v", a)
		}
	})
}

// A step fails once, before or after it is done, and the same keeper goes on.
// What was refused is never taken for done.
func TestStepFailsOnce(t *testing.T) {
	eachStep(t, func(t *testing.T, b *bare, at fault) {
		fail, failed := once(at)
		k := keeperOf(t, faultyStore(t, b.store, fail), faultyGate{b.gate, fail}, "S")
		for {
			err := k.run(t.Context())
			if err == nil {
				break
			}
			if !errors.Is(err, errFault) {
				t.Fatal(err)
			}
		}
		if !failed.Load() {
			t.Fatal("nothing failed")
		}
		if wrong := b.wrongWithBusy(t); len(wrong) > 0 {
			t.Fatal(wrong)
		}
	})
}

// empty makes the stores as they were before the sale.
func (b *bare) empty(t testing.TB) {
	t.Helper()
	exec(t, b.store, "DELETE FROM refunds")
	exec(t, b.store, "DELETE FROM orders")
	exec(t, b.store, "DELETE FROM sales")
	if err := b.rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

// The marker before the work: dying in between strands the units, and the same
// check says so.
func TestMarkBeforeReleaseStrandsUnits(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := busy(t, s)
		k := b.keeper(t, "S")
		rows, err := b.store.Ended(t.Context(), "S", 500)
		if err != nil || len(rows) != 3 {
			t.Fatal(rows, err)
		}
		for _, r := range rows {
			if err := b.store.MarkRestored(t.Context(), "S", k.fence, []string{r.ID}); err != nil {
				t.Fatal(err)
			}
		}
		b.keeper(t, "S").finish(t) // and it died before it released
		if len(b.wrongWithBusy(t)) == 0 {
			t.Error("nothing found")
		}
	})
}

// A release without the look at the hold gives units back at every repetition.
func TestReleaseWithoutHoldGivesBackTwice(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := busy(t, s)
		die, _ := fromThenOn(fault{step: "release", after: true})
		if err := keeperOf(t, b.store, faultyGate{b.gate, die}, "S").run(t.Context()); !errors.Is(err, errFault) {
			t.Fatal(err)
		}
		rows, err := b.store.Ended(t.Context(), "S", 500)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows { // as a repetition by count, not by hold
			if r.Status.Closed() {
				b.rdb.HIncrBy(t.Context(), "sale:{S}", "available", b.rows(t)[r.ID].Quantity)
			}
		}
		b.keeper(t, "S").finish(t)
		if len(b.wrongWithBusy(t)) == 0 {
			t.Error("nothing found")
		}
	})
}

// Every node sweeps and restores the same expired orders: each unit comes back
// once.
func TestManyNodesRestoreOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		var nodes []*shop
		for range 4 {
			nodes = append(nodes, open(t, s, func(c *Config) {
				c.SweepEvery = 20 * time.Millisecond
				c.Keeper.Lease = time.Second
			}))
		}
		const n = 60
		nodes[0].put(t, sale("S", n, 1))
		bought := allBuy(t, nodes[1], "S", "k", n)
		var ids []string
		for id := range bought {
			ids = append(ids, id)
		}
		overdue(t, nodes[0].store, ids...)
		eventually(t, "all units are back", func() bool {
			a, err := nodes[0].Audit(t.Context(), "S")
			return err == nil && a.Available == n && a.Restoring == 0
		})
		a := nodes[0].settled(t, "S")
		var expired, restored int64
		for _, p := range nodes {
			expired += p.keepers.count.Expired.Load()
			restored += p.keepers.count.Restored.Load()
		}
		if a.Available != n || a.Sold != 0 || expired != n || restored != n {
			t.Errorf("%+v; %d expired, %d units given back", a, expired, restored)
		}
		if wrong := brokenClosing(t, nodes[0].store); len(wrong) > 0 {
			t.Error(wrong)
		}
		if again := allBuy(t, nodes[2], "S", "l", n); len(again) != n {
			t.Errorf("%d sold again of %d", len(again), n)
		}
	})
}
