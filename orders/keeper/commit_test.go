package keeper_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

// A commit whose answer was lost is done again: with the same batch it gives
// the same decisions and changes nothing.
func TestCommitTwice(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 3, 2))
		k := b.Keeper(t, "S")
		b.Reserve(t, "ann", "k", 2)
		b.Reserve(t, "bob", "", 1)
		batch := b.Queue(t)
		// Two orders that a gate accepts only after it has lost data.
		eve := kit.QueuedOrder("44444444-0000-7000-8000-000000000000", "eve", "", 1)
		eve.Epoch = batch[0].Epoch
		batch = append(batch, eve,
			inventory.Queued{Epoch: eve.Epoch, OrderID: "55555555-0000-7000-8000-000000000000", Buyer: "ann", Quantity: 2, Key: "k", Fingerprint: batch[0].Fingerprint, At: kit.DecidedAt})

		first, err := b.Store.Commit(t.Context(), "S", k.Fence(), batch)
		check.Must(t, err)
		rows := b.Rows(t)
		second, err := b.Store.Commit(t.Context(), "S", k.Fence(), batch)
		check.Must(t, err)
		for i := range batch {
			one, two := first[i], second[i]
			if one.Order.ID != two.Order.ID || one.Order.Status != two.Order.Status || one.Refused != two.Refused {
				t.Errorf("order %d: first %q, then %q", i, kit.Said(one), kit.Said(two))
			}
			if two.Action == orders.Insert {
				t.Errorf("order %d was inserted twice", i)
			}
		}
		if got := []string{kit.Said(first[0]), kit.Said(first[1]), kit.Said(first[2]), kit.Said(first[3])}; !reflect.DeepEqual(got,
			[]string{"sold", "sold", "rejected sold_out", "is " + batch[0].OrderID + " release"}) {
			t.Errorf("decisions: %q", got)
		}
		if again := b.Rows(t); !reflect.DeepEqual(rows, again) || len(again) != 3 {
			t.Errorf("rows were\n%+v, are\n%+v", rows, again)
		}
		if sale, _ := b.Store.Sale(t.Context(), "S"); sale.Sold != 3 {
			t.Errorf("sold %d", sale.Sold)
		}
	})
}

// A keeper that comes back after another took over writes nothing.
func TestCommitIsFenced(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 3, 1))
		stale := b.Keeper(t, "S")
		b.Reserve(t, "ann", "", 1)
		batch := b.Queue(t)
		b.Keeper(t, "S")

		ctx := t.Context()
		check.Is(t, check.Err(b.Store.Commit(ctx, "S", stale.Fence(), batch)), orders.ErrFenced)
		check.Is(t, b.Store.MarkReleased(ctx, "S", stale.Fence(), []string{batch[0].OrderID}), orders.ErrFenced)
		check.Is(t, check.Err(b.Store.Recount(ctx, store.NewSnapshot("S"), &orders.Sale{Epoch: 1}, stale.Fence(), 1)), orders.ErrFenced)
		if n := len(b.Rows(t)); n != 0 {
			t.Errorf("the stale keeper wrote %d rows", n)
		}
		// The same statements without the fence: the stale keeper's write lands.
		check.Must(t, commitUnfenced(ctx, b.Store, batch))
		if len(b.Rows(t)) == 0 {
			t.Error("the check above does not see an unfenced write")
		}
	})
}

// commitUnfenced is Commit as it would be without its condition.
func commitUnfenced(ctx context.Context, s *store.Store, batch []inventory.Queued) error {
	return s.Transact(ctx, func(tx *gorm.DB) error {
		sale, err := s.LockSale(tx, "S")
		if err != nil {
			return err
		}
		ledgers, err := s.ReadLedgers(tx, []store.SaleBatch{{Sale: sale, Orders: batch}})
		if err != nil {
			return err
		}
		return tx.Create(ledgers[0].Decide(batch[0]).Order).Error
	})
}

// One order that the database refuses does not stop its SKU, and its units
// come back.
func TestCommitOfABadOrder(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 10, 2))
		k := b.Keeper(t, "S")
		var heard []orders.Decision
		k.Hear(func(_ context.Context, decisions []orders.Decision) { heard = append(heard, decisions...) })

		bad := []string{strings.Repeat("x", 65)} // one more than the column holds
		if s.Kind == servers.KindReal {
			bad = append(bad, "j\u00fcrgen", "\xff") // not in the column's character set; not even text
		}
		b.Reserve(t, "ann", "", 1)
		for _, buyer := range bad {
			b.Reserve(t, buyer, "", 2)
		}
		b.Reserve(t, "bob", "", 1)
		k.Finish(t)

		b.Stands(t, 2, 8)
		for _, v := range heard {
			good := v.Queued.Buyer == "ann" || v.Queued.Buyer == "bob"
			if good != (v.Refused == "") || good != (v.Order != nil) {
				t.Errorf("%q hears %+v", v.Queued.Buyer, v)
			}
		}
		if len(heard) != 2+len(bad) {
			t.Errorf("%d heard", len(heard))
		}
	})
}
