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

// busy is a sale of 20 in which something of everything is under way: one
// order each paid, cancelled and expired of which the gate does not know yet,
// one pending, two in the queue, and a restock.
func busy(t *testing.T, s *servers.Stores) *bare.Bare {
	t.Helper()
	put := kit.Sale("S", 15, 3)
	b := bare.Open(t, s, put)
	paid, cancelled, expired := b.Reserve(t, "ann", "k", 3), b.Reserve(t, "bob", "k", 2), b.Reserve(t, "eve", "", 1)
	b.Reserve(t, "joe", "", 1)
	b.Keeper(t, "S").Finish(t)
	ctx := t.Context()
	check.Must(t, check.Err(b.Store.Pay(ctx, "ann", paid, "ref")))
	check.Must(t, check.Err(b.Store.Cancel(ctx, "bob", cancelled)))
	kit.Overdue(t, b.Store.DB, expired)
	check.Must(t, check.Err(b.Store.Expire(ctx)))
	b.Reserve(t, "joe", "k", 2)
	b.Reserve(t, "sue", "", 3)
	put.Total = 20
	kit.Put(t, b.Store, put)
	return b
}

// wrongWithBusy names what is not as it must be once all of that is acked.
func wrongWithBusy(t *testing.T, b *bare.Bare) (wrong []string) {
	t.Helper()
	want := store.Audit{SKU: "S", Total: 20, Available: 11, Sold: 9, Paid: 3, Pending: 6, Balanced: true}
	if a := b.Audit(t); a != want {
		wrong = append(wrong, fmt.Sprintf("audit %+v, want %+v", a, want))
	}
	view, err := b.Gate.Inspect(t.Context(), "S")
	check.Must(t, err)
	if view.Holds != 3 {
		wrong = append(wrong, fmt.Sprintf("%d holds for 3 pending orders", view.Holds))
	}
	for id, o := range b.Rows(t) {
		if ended := o.Status != orders.PendingPayment; ended != (o.RestoredAt != nil) {
			wrong = append(wrong, fmt.Sprintf("%s is %s, restored at %v", id, o.Status, o.RestoredAt))
		}
	}
	return wrong
}

// eachStep runs f for a fault before and after each step of a keeper, each time
// with a busy sale; for the steps of a rebuild one has been asked for.
func eachStep(t *testing.T, f func(t *testing.T, b *bare.Bare, at kit.Fault)) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		for i, step := range []string{"queue", "commit", "ack", "release", "confirm", "mark", "terms", "stage", "shut", "recount", "install"} {
			for _, at := range []kit.Fault{{Step: step}, {Step: step, After: true}} {
				t.Run(at.String(), func(t *testing.T) {
					b := busy(t, s)
					defer b.Empty(t) // one pair of stores serves all
					if i >= 7 {
						check.Must(t, check.Err(b.Store.AskRebuild(t.Context(), "S")))
					}
					f(t, b, at)
				})
			}
		}
	})
}

// A keeper dies before or after any of its steps: the next one repeats what is
// not known to be done, and takes none of it for drift. What the dead one has staged
// does not stay for good. Should it come back, it changes nothing.
func TestKeeperDiesAtAnyStep(t *testing.T) {
	t.Parallel()
	eachStep(t, func(t *testing.T, b *bare.Bare, at kit.Fault) {
		die, dead := kit.FromThenOn(at)
		first := b.Failing(t, die)
		if err := first.Run(t.Context()); !errors.Is(err, kit.ErrFault) || !dead.Load() {
			t.Fatalf("it did not die: %v", err)
		}
		left := b.Rdb.Keys(t.Context(), "*staged*").Val()
		staged := at == kit.Fault{Step: "stage", After: true} || at.Step == "shut" || at.Step == "recount" || at == kit.Fault{Step: "install"}
		if staged != (len(left) > 0) {
			t.Errorf("left behind: %v", left)
		}
		for _, key := range left {
			if ttl := b.Rdb.TTL(t.Context(), key).Val(); ttl <= 0 {
				t.Errorf("%s stays", key)
			}
		}
		next := b.Keeper(t, "S")
		compares(t, next)
		sure(t, next, "the next keeper")
		kit.None(t, wrongWithBusy(t, b))
		// It wakes up, sees the stores again, and goes on from the start.
		first.Use(b.Store, b.Gate)
		first.Want |= keeper.Release | keeper.Inspect
		b.Reserve(t, "tom", "", 1)
		check.Is(t, first.Run(t.Context()), orders.ErrFenced)
		b.Keeper(t, "S").Finish(t)
		b.Stands(t, 10, 10)
	})
}

// A step fails once, before or after it is done, and the same keeper goes on.
// What was refused is never taken for done, nor for drift.
func TestStepFailsOnce(t *testing.T) {
	t.Parallel()
	eachStep(t, func(t *testing.T, b *bare.Bare, at kit.Fault) {
		fail, failed := kit.Once(at)
		k := b.Failing(t, fail)
		for err := kit.ErrFault; err != nil; {
			k.Want |= keeper.Compare | keeper.Scan
			if err = k.Run(t.Context()); err != nil && !errors.Is(err, kit.ErrFault) {
				t.Fatal(err)
			}
		}
		if !failed.Load() {
			t.Fatal("nothing failed")
		}
		kit.None(t, wrongWithBusy(t, b))
		compares(t, k)
		sure(t, k, "the same keeper")
	})
}
