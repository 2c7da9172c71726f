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

// A keeper repeats a commit whose answer was lost. The second commit of a batch returns the same
// decisions and changes nothing.
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
			inventory.QueuedOrder{Epoch: eve.Epoch, OrderID: "55555555-0000-7000-8000-000000000000", Buyer: "ann", Quantity: 2, Key: "k", Fingerprint: batch[0].Fingerprint, AcceptedAt: kit.DecidedAt})

		first, err := b.Store.Commit(t.Context(), "S", k.Fence(), batch)
		check.Must(t, err)
		rows := b.Rows(t)
		second, err := b.Store.Commit(t.Context(), "S", k.Fence(), batch)
		check.Must(t, err)
		for i := range batch {
			one, two := first[i], second[i]
			if one.Order.ID != two.Order.ID || one.Order.Status != two.Order.Status || one.Refused != two.Refused {
				t.Errorf("order %d of a repeated commit: got the decision %q, want %q as in the first commit", i, kit.DecisionText(two), kit.DecisionText(one))
			}
			if two.Action == orders.Insert {
				t.Errorf("order %d of a repeated commit: got another insert, want none", i)
			}
		}
		got := []string{kit.DecisionText(first[0]), kit.DecisionText(first[1]), kit.DecisionText(first[2]), kit.DecisionText(first[3])}
		if want := []string{"sold", "sold", "rejected sold_out", "is " + batch[0].OrderID + " release"}; !reflect.DeepEqual(got, want) {
			t.Errorf("decisions of the commit: got %q, want %q", got, want)
		}
		if repeated := b.Rows(t); !reflect.DeepEqual(rows, repeated) || len(repeated) != 3 {
			t.Errorf("rows after the second commit: got\n%+v\nwant 3 rows as after the first commit:\n%+v", repeated, rows)
		}
		if sale, _ := b.Store.Sale(t.Context(), "S"); sale.Sold != 3 {
			t.Errorf("sale after the second commit: got %d units sold, want 3", sale.Sold)
		}
	})
}

// A keeper that another keeper has replaced writes nothing.
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
		check.Is(t, b.Store.MarkOrdersReleased(ctx, "S", stale.Fence(), []string{batch[0].OrderID}), orders.ErrFenced)
		check.Is(t, check.Err(b.Store.BeginEpoch(ctx, store.NewSnapshot("S"), &orders.Sale{Epoch: 1}, stale.Fence(), 1)), orders.ErrFenced)
		if n := len(b.Rows(t)); n != 0 {
			t.Errorf("commit of a stale keeper: got %d rows, want none", n)
		}
		// Without the fence the same statements insert a row, so the check above can fail.
		check.Must(t, commitUnfenced(ctx, b.Store, batch))
		if len(b.Rows(t)) == 0 {
			t.Error("commit without a fence: got no row, so the check above proves nothing")
		}
	})
}

// commitUnfenced commits the first order of a batch like Store.Commit, but without the fence.
func commitUnfenced(ctx context.Context, s *store.Store, batch []inventory.QueuedOrder) error {
	return s.Transact(ctx, func(tx *gorm.DB) error {
		sale, err := s.LockSale(tx, "S")
		if err != nil {
			return err
		}
		ledgers, err := s.ReadLedgers(tx, []store.LockedBatch{{Sale: sale, Orders: batch}})
		if err != nil {
			return err
		}
		return tx.Create(ledgers[0].Decide(batch[0]).Order).Error
	})
}

// One order that the database rejects does not stop its SKU, and its units are released.
func TestBadOrderDoesNotStopItsSKU(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 10, 2))
		k := b.Keeper(t, "S")
		var decided []orders.Decision
		k.SetNotify(func(_ context.Context, decisions []orders.Decision) { decided = append(decided, decisions...) })

		bad := []string{strings.Repeat("x", 65)} // longer than the column
		if s.Kind == servers.KindReal {
			bad = append(bad, "j\u00fcrgen", "\xff") // not in the column's character set, and not UTF-8
		}
		b.Reserve(t, "ann", "", 1)
		for _, buyer := range bad {
			b.Reserve(t, buyer, "", 2)
		}
		b.Reserve(t, "bob", "", 1)
		k.Finish(t)

		b.CheckAudit(t, 2, 8)
		for _, d := range decided {
			good := d.Queued.Buyer == "ann" || d.Queued.Buyer == "bob"
			if good != (d.Refused == "") || good != (d.Order != nil) {
				t.Errorf("decision about the order of %q: got %+v, want it accepted: %v", d.Queued.Buyer, d, good)
			}
		}
		if len(decided) != 2+len(bad) {
			t.Errorf("commit with bad orders: got %d decisions, want %d", len(decided), 2+len(bad))
		}
	})
}
