package shop

import (
	"context"
	"errors"
	"testing"
	"time"

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

// A sale has changed to units on payment, and a node with an old copy of it still reserves an
// order at the gate. The keeper does not commit the order, because another node may have refused
// its key since.
func TestGateOrderOfASaleOnPayment(t *testing.T) {
	t.Parallel()
	b := bare.Open(t, servertest.Open(t, servers.KindReal), kit.Sale("S", 2, 1))
	put := kit.Sale("S", 2, 1)
	put.ReserveOn = orders.OnPayment
	kit.PutSale(t, b.Store, put)
	k := b.Keeper(t, "S")
	k.Finish(t) // begins the epoch ReserveFrom, in which units are taken on payment
	b.Reserve(t, "ann", "k", 1)
	b.Reserve(t, "bob", "", 1)
	restore := dump(t, b)
	k.Finish(t)
	if n := len(b.Rows(t)); n != 0 {
		t.Errorf("orders without a gate: got %d that hold units, want none", n)
	}
	b.CheckAudit(t, 0, 2)
	restore()
	put.ReserveOn = orders.OnOrder // the epoch stays the same
	kit.PutSale(t, b.Store, put)
	k.Work |= keeper.DrainQueue
	check.Must(t, k.Step(t.Context()))
	if n := len(b.Rows(t)); n != 0 {
		t.Errorf("orders after the change back: got %d that hold units, want none", n)
	}
}

// noInstall is a Gate for a keeper that crashes between BeginEpoch and Install.
type noInstall struct{ keeper.Gate }

func (noInstall) Install(context.Context, *inventory.Draft, int64, inventory.View) (bool, error) {
	return false, errors.New("the keeper has crashed")
}

// dump copies the sale's keys in Redis, and returns a function that restores them.
func dump(t *testing.T, b *bare.Bare) (restore func()) {
	t.Helper()
	had := map[string]string{}
	for _, key := range b.Rdb.Keys(t.Context(), "sale:{S}*").Val() {
		had[key] = b.Rdb.Dump(t.Context(), key).Val()
	}
	return func() {
		check.Must(t, b.Rdb.FlushAll(t.Context()).Err())
		for key, value := range had {
			check.Must(t, b.Rdb.Restore(t.Context(), key, 0, value).Err())
		}
	}
}

// An order is queued at a gate, and the gate is replaced. The order's key is refused. Then Redis
// returns to the old state, with the old queue. The order must not become durable.
func TestOldQueueIsNotCommitted(t *testing.T) {
	t.Parallel()
	queued := func(buyer string) []inventory.QueuedOrder { return []inventory.QueuedOrder{asked(buyer, "k", 1)} }
	durable := func(t *testing.T, b *bare.Bare, buyer string) bool {
		o, err := b.Store.OrderByKey(t.Context(), "S", buyer, "k")
		return err == nil && o.Status != orders.Rejected
	}
	// Direct mode refuses ann's key. The keeper that ends direct mode crashes between BeginEpoch
	// and Install, and Redis returns to a state in which the queue was not dropped.
	afterDirect := func(t *testing.T, enter func(*bare.Bare)) bool {
		b := bare.Open(t, servertest.Open(t, servers.KindReal), kit.Sale("S", 1, 1))
		b.Reserve(t, "ann", "k", 1)
		restore := dump(t, b)
		enter(b)
		bob, err := b.Store.CommitDirect(t.Context(), "S", queued("bob"))
		check.Must(t, err)
		ann, err := b.Store.CommitDirect(t.Context(), "S", queued("ann"))
		if check.Must(t, err); ann[0].Refused != orders.SoldOut {
			t.Fatalf("direct order of ann: got %+v, want sold out", ann[0])
		}
		check.Must(t, check.Err(b.Store.Cancel(t.Context(), "bob", bob[0].Order.ID)))
		first := bare.KeeperOf(t, b.Store, noInstall{b.Gate}, "S")
		_ = first.Step(t.Context())
		restore()
		b.Keeper(t, "S").Finish(t)
		return durable(t, b, "ann")
	}
	t.Run("direct mode ends", func(t *testing.T) {
		if afterDirect(t, func(b *bare.Bare) { b.EnterDirect(t) }) {
			t.Error("order of ann with her key: got a refusal although her order is durable, want a replay")
		}
	})
	t.Run("direct mode, twin", func(t *testing.T) {
		if !afterDirect(t, func(b *bare.Bare) {
			kit.Exec(t, b.Store.DB, "UPDATE sales SET fence = fence + 1, mode = 'direct'") // the epoch does not change
		}) {
			t.Error("broken twin: got a refusal or no durable order, want a durable order, because the epoch is that of the old gate")
		}
	})
	t.Run("Redis fails over and back", func(t *testing.T) {
		b := bare.Open(t, servertest.Open(t, servers.KindReal), kit.Sale("S", 1, 1))
		promoted := dump(t, b)
		b.Reserve(t, "ann", "k", 1)
		failBack := dump(t, b)
		promoted()
		check.Must(t, check.Err(b.Store.RequestRebuild(t.Context(), "S")))
		k := b.Keeper(t, "S")
		k.Finish(t)
		b.Reserve(t, "bob", "k", 1)
		k.Finish(t)
		_, err := b.Gate.Reserve(t.Context(), inventory.Request{OrderID: "late", SKU: "S", Buyer: "ann", Quantity: 1, Key: "k"})
		check.Is(t, err, inventory.ErrSoldOut)
		bob, err := b.Store.OrderByKey(t.Context(), "S", "bob", "k")
		check.Must(t, err)
		check.Must(t, check.Err(b.Store.Cancel(t.Context(), "bob", bob.ID)))
		k.Finish(t)
		failBack()
		k.Work |= keeper.DrainQueue
		k.Finish(t)
		if durable(t, b, "ann") {
			t.Error("order of ann with her key: got a refusal although her order is durable, want a replay")
		}
	})
}

// A sale changes from taking units with an order to taking them with the payment. Nodes may still
// rely on the old gate, which does not contain orders without units. Therefore such an order is
// rejected until the next epoch has begun.
func TestNoOrderWithoutUnitsBeforeTheSwitch(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 2, 1))
		put := kit.Sale("S", 2, 1)
		put.ReserveOn = orders.OnPayment
		kit.PutSale(t, b.Store, put)
		order := func() error {
			return check.Err(b.Store.CommitOnPayment(t.Context(), "S", []inventory.QueuedOrder{asked("ann", "k", 1)}))
		}
		check.Is(t, order(), orders.ErrTakesUnits)
		if sale, err := b.Store.Sale(t.Context(), "S"); err != nil || sale.Mode != orders.ModeChanging || sale.TakesOnPayment() {
			t.Errorf("sale after the change: got %+v, error %v, want mode %s and units on order", sale, err, orders.ModeChanging)
		}
		// An epoch cannot end before its end was announced.
		fence := b.Keeper(t, "S").Fence()
		recount := func(epoch int64, updated time.Duration) error {
			sale, err := b.Store.Sale(t.Context(), "S")
			check.Must(t, err)
			sale.Epoch, sale.UpdatedAt = epoch, sale.UpdatedAt.Add(updated)
			return check.Err(b.Store.BeginEpoch(t.Context(), store.NewSnapshot("S"), sale, fence, epoch))
		}
		check.Is(t, recount(b.Epoch(t)-1, 0), orders.ErrNotAnnounced)
		check.Is(t, recount(b.Epoch(t), -time.Millisecond), orders.ErrNotAnnounced) // the sale was changed after the announcement
		if entered, err := b.Store.EnterDirect(t.Context(), "S", b.Epoch(t)-1, inventory.Standalone, time.Minute); entered || err != nil {
			t.Errorf("direct mode without an announcement: got entered %t, error %v, want false", entered, err)
		}
		b.Keeper(t, "S").Finish(t)
		check.Must(t, order())
		fence = b.Keeper(t, "S").Fence()
		check.Is(t, recount(b.Epoch(t), 0), orders.ErrNotAnnounced)
	})
}
