package keeper_test

import (
	"fmt"
	"sync"
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

// paidSale returns a sale of 10 units and its three paid orders. The gate has dropped the holds of
// two of them, of which the second was paid late, and still has the hold of the third. A closed
// order waits for its release, and joe's order is queued.
func paidSale(t testing.TB, s *servers.Stores) (*bare.Bare, []string) {
	t.Helper()
	b := bare.Open(t, s, kit.Sale("S", 10, 3))
	k, ctx := b.Keeper(t, "S"), t.Context()
	dropped, late := b.Reserve(t, "ann", "", 2), b.Reserve(t, "bob", "", 1)
	k.Finish(t)
	check.Must(t, check.Err(b.Store.Pay(ctx, "ann", dropped, "ref")))
	kit.MakeOverdue(t, b.Store.DB, late)
	check.Must(t, check.Err(b.Store.Expire(ctx)))
	k.Finish(t)
	check.Must(t, tryReserve(t, b, inventory.Request{Buyer: "bob", Quantity: 1, Key: "ref", PaysOrder: late}))
	held, closed := b.Reserve(t, "eve", "", 3), b.Reserve(t, "sue", "", 1)
	k.Finish(t)
	check.Must(t, check.Err(b.Store.Pay(ctx, "eve", held, "ref")))
	check.Must(t, check.Err(b.Store.Cancel(ctx, "sue", closed)))
	b.Reserve(t, "joe", "key", 1)
	return b, []string{dropped, late, held}
}

// voids takes orders back and checks that this call has done so.
func voids(t testing.TB, b *bare.Bare, ids []string) {
	t.Helper()
	if v, err := b.Store.Void(t.Context(), "S", ids, "bots"); err != nil || fmt.Sprint(v.Voided) != fmt.Sprint(ids) {
		t.Errorf("void of %v: got %+v, error %v, want all of them voided", ids, v, err)
	}
}

// soldAgain runs the keeper to its end. It checks that the orders were taken back and released, and
// that each unsold unit can be sold once.
func soldAgain(t testing.TB, b *bare.Bare, ids []string) {
	t.Helper()
	k := b.Keeper(t, "S")
	k.Finish(t)
	kit.MustBeEmpty(t, append(b.Inconsistencies(t), kit.InconsistentOrders(t, b.Store.DB)...))
	rows := b.Rows(t)
	for _, id := range ids {
		if o := rows[id]; !o.Voided() || o.RestoredAt == nil || o.Claims != 1 {
			t.Errorf("order %s: got %+v, want it taken back, released, and one claim", id, o)
		}
	}
	a := b.Audit(t)
	for i := range a.Available {
		b.Reserve(t, fmt.Sprint("fresh-", i), "", 1)
	}
	_, err := b.Gate.Reserve(t.Context(), inventory.Request{OrderID: "one-too-many", SKU: "S", Buyer: "last", Quantity: 1, Fingerprint: "h"})
	check.Is(t, err, inventory.ErrSoldOut)
	k.Finish(t)
	b.CheckAudit(t, a.Total, 0)
}

// Orders are taken back before or after any step of a keeper. Until the rebuild, the units of the
// orders are restoring, the keeper finds no drift, and the sale continues in its epoch. Afterwards
// the units are sold again, once.
func TestVoidAtAnyStep(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		for i, step := range []string{"queue", "commit", "ack", "release", "drop", "mark", "terms", "stage", "shut", "recount", "install"} {
			for _, after := range []bool{false, true} {
				if !after && (step == "commit" || step == "mark" || step == "recount") {
					continue // the keeper's transaction has locked the sale's row
				}
				at := kit.Fault{Step: step, After: after}
				t.Run(at.String(), func(t *testing.T) {
					voidsAt(t, s, at, i)
				})
			}
		}
	})
}

// voidsAt takes orders back at a step of a keeper, which is the step of that index in
// TestVoidAtAnyStep. From the seventh step on the keeper also corrects the gate.
func voidsAt(t *testing.T, s *servers.Stores, at kit.Fault, i int) {
	t.Helper()
	b, ids := paidSale(t, s)
	defer b.DeleteAll(t) // all cases share the stores
	epoch := b.Epoch(t)
	void := sync.OnceFunc(func() { voids(t, b, ids) })
	reached := false
	k := b.FailingKeeper(t, func(now kit.Fault) error {
		if now == at {
			reached = true
			void()
		}
		return nil
	})
	if k.Work = keeper.ReleaseHolds; i >= 6 {
		k.Work |= keeper.CorrectGate
		kit.PutSale(t, b.Store, kit.Sale("S", 12, 3))
	}
	if i >= 7 {
		check.Must(t, check.Err(b.Store.RequestRebuild(t.Context(), "S")))
	}
	check.Must(t, k.Run(t.Context()))
	compares(t, k)
	checkNoDrift(t, k, at.String())
	if a := b.Audit(t); !reached || !a.Balanced || i < 6 && a.Restoring != 6 {
		t.Errorf("audit %s, reached %t: got %+v, want it balanced and, before a rebuild, 6 units restoring", at, reached, a)
	}
	if i < 6 {
		late := b.Reserve(t, "late", "", 1)
		k.Work = keeper.DrainQueue
		check.Must(t, k.Run(t.Context()))
		if o := b.Rows(t)[late]; o.Status != orders.PendingPayment || b.Epoch(t) != epoch {
			t.Errorf("order after the void: got %+v in epoch %d, want it pending in epoch %d", o, b.Epoch(t), epoch)
		}
	}
	soldAgain(t, b, ids)
}

// A keeper dies after it has committed an order and before it has removed the order from the queue.
// The order is paid and taken back. The next keeper reads the order again and releases no units.
func TestVoidOfAnOrderThatIsStillQueued(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 10, 3))
		id := b.Reserve(t, "ann", "k", 2)
		check.Must(t, check.Err(b.Keeper(t, "S").CommitBatch(t.Context(), b.Queue(t))))
		check.Must(t, check.Err(b.Store.Pay(t.Context(), "ann", id, "ref")))
		voids(t, b, []string{id})
		k := b.Keeper(t, "S")
		k.Work = keeper.DrainQueue | keeper.ReleaseHolds
		check.Must(t, k.Run(t.Context()))
		compares(t, k)
		checkNoDrift(t, k, "queued again")
		if a := b.Audit(t); !a.Balanced || a.Restoring != 2 || a.Available != 8 || len(b.Queue(t)) != 0 {
			t.Errorf("audit: got %+v, want it balanced, 2 units restoring and an empty queue", a)
		}
		soldAgain(t, b, []string{id})
	})
}

// A void in direct mode announces nothing, because the end of direct mode needs a new gate. A sale
// that is over has no gate, so the order counts as released. If the sale is put on again, its gate
// has the units.
func TestVoidWithoutAGate(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		for _, mode := range []string{orders.ModeDirect, orders.ModeOver} {
			b, ids := paidSale(t, s)
			if b.Keeper(t, "S").Finish(t); mode == orders.ModeDirect {
				b.EnterDirect(t)
			} else {
				kit.Exec(t, b.Store.DB, "UPDATE sales SET mode = ?", mode)
			}
			voids(t, b, ids)
			sale, err := b.Store.Sale(t.Context(), "S")
			a, auditErr := b.Store.Audit(t.Context(), b.Store.InspectRows, "S")
			if err != nil || sale.Mode != mode || auditErr != nil || !a.Balanced || a.Restoring != map[string]int64{orders.ModeDirect: 6}[mode] {
				t.Errorf("sale after a void: got %+v, audit %+v, errors %v and %v, want mode %s and 6 units restoring only in direct mode", sale, a, err, auditErr, mode)
			}
			if mode == orders.ModeOver {
				kit.PutSale(t, b.Store, kit.Sale("S", 12, 3))
			}
			soldAgain(t, b, ids)
			b.DeleteAll(t)
		}
	})
}

// Orders are taken back in direct mode, and Redis returns empty after the sale has ended. The keeper
// builds a gate, which marks the orders released, before it ends the sale.
func TestVoidedSaleEndsWithoutItsGate(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b, ids := paidSale(t, s)
		b.Keeper(t, "S").Finish(t)
		b.EnterDirect(t)
		voids(t, b, ids)
		check.Must(t, check.Err(b.Store.EndSale(t.Context(), "S")))
		for id, o := range b.Rows(t) {
			if o.Status == orders.PendingPayment {
				check.Must(t, check.Err(b.Store.Cancel(t.Context(), o.Buyer, id)))
			}
		}
		check.Must(t, b.Rdb.FlushDB(t.Context()).Err())
		k := b.Keeper(t, "S")
		check.Eventually(t, "the sale is over", func() bool {
			k.Work = keeper.DeleteGate
			check.Must(t, k.Run(t.Context()))
			sale, err := b.Store.Sale(t.Context(), "S")
			return err == nil && sale.Mode == orders.ModeOver
		})
		for _, id := range ids {
			if o := b.Rows(t)[id]; o.RestoredAt == nil {
				t.Errorf("order %s after its sale has ended: got %+v, want it released", id, o)
			}
		}
		b.DeleteAll(t)
	})
}
