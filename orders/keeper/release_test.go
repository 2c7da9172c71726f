package keeper_test

import (
	"errors"
	"fmt"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
	"flashsale/orders/store"
)

// busySale returns a sale in which everything is in progress: a paid, a cancelled and an expired
// order that the gate has not released, a pending order, two queued orders, and a restock to
// 20 units.
func busySale(t *testing.T, s *servers.Stores) *bare.Bare {
	t.Helper()
	put := kit.Sale("S", 15, 3)
	b := bare.Open(t, s, put)
	paid, cancelled, expired := b.Reserve(t, "ann", "k", 3), b.Reserve(t, "bob", "k", 2), b.Reserve(t, "eve", "", 1)
	b.Reserve(t, "joe", "", 1)
	b.Keeper(t, "S").Finish(t)
	ctx := t.Context()
	check.Must(t, check.Err(b.Store.Pay(ctx, "ann", paid, "ref")))
	check.Must(t, check.Err(b.Store.Cancel(ctx, "bob", cancelled)))
	kit.MakeOverdue(t, b.Store.DB, expired)
	check.Must(t, check.Err(b.Store.Expire(ctx)))
	b.Reserve(t, "joe", "k", 2)
	b.Reserve(t, "sue", "", 3)
	put.Total = 20
	kit.PutSale(t, b.Store, put)
	return b
}

// wrongAfterBusySale returns what is wrong with a busy sale after a keeper has finished its
// work.
func wrongAfterBusySale(t *testing.T, b *bare.Bare) (wrong []string) {
	t.Helper()
	want := store.Audit{SKU: "S", Total: 20, Available: 11, Sold: 9, Paid: 3, Pending: 6, Balanced: true}
	if a := b.Audit(t); a != want {
		wrong = append(wrong, fmt.Sprintf("got audit %+v, want %+v", a, want))
	}
	view, err := b.Gate.Inspect(t.Context(), "S")
	check.Must(t, err)
	if view.Holds != 3 {
		wrong = append(wrong, fmt.Sprintf("got %d holds, want 3 for 3 pending orders", view.Holds))
	}
	for id, o := range b.Rows(t) {
		if ended := o.Status != orders.PendingPayment; ended != (o.RestoredAt != nil) {
			wrong = append(wrong, fmt.Sprintf("got restored_at %v of %s, which is %s", o.RestoredAt, id, o.Status))
		}
	}
	return wrong
}

// eachStep runs f with a busy sale and a fault, once for a fault before and once for a fault
// after each step of a keeper. For the steps of a rebuild, a rebuild is requested first.
func eachStep(t *testing.T, f func(t *testing.T, b *bare.Bare, at kit.Fault)) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		for i, step := range []string{"queue", "commit", "ack", "release", "drop", "mark", "terms", "stage", "shut", "recount", "install"} {
			for _, at := range []kit.Fault{{Step: step}, {Step: step, After: true}} {
				t.Run(at.String(), func(t *testing.T) {
					b := busySale(t, s)
					defer b.DeleteAll(t) // all cases share the stores
					if i >= 7 {
						check.Must(t, check.Err(b.Store.RequestRebuild(t.Context(), "S")))
					}
					f(t, b, at)
				})
			}
		}
	})
}

// A keeper dies before or after any of its steps. The next keeper repeats the step and finds no
// drift. Keys that the dead keeper has staged expire. If the dead keeper resumes, it changes
// nothing.
func TestKeeperDiesAtAnyStep(t *testing.T) {
	t.Parallel()
	eachStep(t, func(t *testing.T, b *bare.Bare, at kit.Fault) {
		die, dead := kit.FromThenOn(at)
		first := b.FailingKeeper(t, die)
		if err := first.Run(t.Context()); !errors.Is(err, kit.ErrFault) || !dead.Load() {
			t.Fatalf("first keeper: got error %v, want its death at the injected fault", err)
		}
		left := b.Rdb.Keys(t.Context(), "*staged*").Val()
		staged := at == kit.Fault{Step: "stage", After: true} || at.Step == "shut" || at.Step == "recount" || at == kit.Fault{Step: "install"}
		if staged != (len(left) > 0) {
			t.Errorf("staged keys after the death: got %v, want some: %v", left, staged)
		}
		for _, key := range left {
			if ttl := b.Rdb.TTL(t.Context(), key).Val(); ttl <= 0 {
				t.Errorf("staged key %s: got no expiry, want one", key)
			}
		}
		next := b.Keeper(t, "S")
		compares(t, next)
		checkNoDrift(t, next, "the next keeper")
		kit.MustBeEmpty(t, wrongAfterBusySale(t, b))
		// The first keeper resumes and reaches the stores again.
		first.Use(b.Store, b.Gate)
		first.Work |= keeper.ReleaseHolds | keeper.CorrectGate
		b.Reserve(t, "tom", "", 1)
		check.Is(t, first.Run(t.Context()), orders.ErrFenced)
		b.Keeper(t, "S").Finish(t)
		b.CheckAudit(t, 10, 10)
	})
}

// A step fails once, before or after it is done, and the same keeper repeats it. The failure is
// never taken for a success or for drift.
func TestFailedStepIsRepeated(t *testing.T) {
	t.Parallel()
	eachStep(t, func(t *testing.T, b *bare.Bare, at kit.Fault) {
		fail, failed := kit.Once(at)
		k := b.FailingKeeper(t, fail)
		for err := kit.ErrFault; err != nil; {
			k.Work |= keeper.CompareSums | keeper.StartScan
			if err = k.Run(t.Context()); err != nil && !errors.Is(err, kit.ErrFault) {
				t.Fatalf("keeper's run: got error %v, want none or the injected fault", err)
			}
		}
		if !failed.Load() {
			t.Fatal("injected fault: it did not happen, so the test proves nothing")
		}
		kit.MustBeEmpty(t, wrongAfterBusySale(t, b))
		compares(t, k)
		checkNoDrift(t, k, "the same keeper")
	})
}
