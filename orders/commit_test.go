package orders

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// A commit whose answer was lost is done again: with the same batch it gives
// the same verdicts and changes nothing.
func TestCommitTwice(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := openBare(t, s, sale("S", 3, 2))
		k := b.keeper(t, "S")
		b.reserve(t, "ann", "k", 2)
		b.reserve(t, "bob", "", 1)
		batch := b.queue(t)
		// Two that the gate would not have let in had it lost no data.
		batch = append(batch, queuedOrder("44444444-0000-7000-8000-000000000000", "eve", "", 1),
			inventory.Queued{OrderID: "55555555-0000-7000-8000-000000000000", Buyer: "ann", Quantity: 2, Key: "k", Fingerprint: batch[0].Fingerprint, At: judgedAt})

		first, err := b.store.Commit(t.Context(), "S", k.fence, batch)
		if err != nil {
			t.Fatal(err)
		}
		rows := b.rows(t)
		second, err := b.store.Commit(t.Context(), "S", k.fence, batch)
		if err != nil {
			t.Fatal(err)
		}
		for i := range batch {
			one, two := first[i], second[i]
			if one.order.ID != two.order.ID || one.order.Status != two.order.Status || one.refused != two.refused {
				t.Errorf("order %d: first %q, then %q", i, said(one), said(two))
			}
			if two.insert {
				t.Errorf("order %d was inserted twice", i)
			}
		}
		if got := []string{said(first[0]), said(first[1]), said(first[2]), said(first[3])}; !reflect.DeepEqual(got,
			[]string{"sold", "sold", "rejected sold_out", "is " + batch[0].OrderID + " give back"}) {
			t.Errorf("verdicts: %q", got)
		}
		if again := b.rows(t); !reflect.DeepEqual(rows, again) || len(again) != 3 {
			t.Errorf("rows were\n%+v, are\n%+v", rows, again)
		}
		if sale, _ := b.store.Sale(t.Context(), "S"); sale.Sold != 3 {
			t.Errorf("sold %d", sale.Sold)
		}
	})
}

// A keeper that comes back after another took over writes nothing.
func TestCommitIsFenced(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := openBare(t, s, sale("S", 3, 1))
		stale := b.keeper(t, "S")
		b.reserve(t, "ann", "", 1)
		batch := b.queue(t)
		b.keeper(t, "S")

		ctx := t.Context()
		if _, err := b.store.Commit(ctx, "S", stale.fence, batch); !errors.Is(err, ErrFenced) {
			t.Errorf("commit: %v", err)
		}
		if err := b.store.MarkRestored(ctx, "S", stale.fence, []string{batch[0].OrderID}); !errors.Is(err, ErrFenced) {
			t.Errorf("mark: %v", err)
		}
		if _, err := b.store.Recount(ctx, newCensus("S"), stale.fence, 1); !errors.Is(err, ErrFenced) {
			t.Errorf("recount: %v", err)
		}
		if n := len(b.rows(t)); n != 0 {
			t.Errorf("the stale keeper wrote %d rows", n)
		}
		// The same statements without the fence: the stale keeper's write lands.
		if err := commitUnfenced(ctx, b.store, batch); err != nil {
			t.Fatal(err)
		}
		if len(b.rows(t)) == 0 {
			t.Error("the check above does not see an unfenced write")
		}
	})
}

// commitUnfenced is Commit as it would be without its condition.
func commitUnfenced(ctx context.Context, s *Store, batch []inventory.Queued) error {
	return s.transact(ctx, func(tx *gorm.DB) error {
		sale, err := s.lockSale(tx, "S")
		if err != nil {
			return err
		}
		ledgers, err := s.readLedgers(tx, []share{{sale: sale, orders: batch}})
		if err != nil {
			return err
		}
		return tx.Create(ledgers[0].judge(batch[0]).order).Error
	})
}

// One order that the database refuses does not stop its SKU, and its units
// come back.
func TestCommitOfABadOrder(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := openBare(t, s, sale("S", 10, 2))
		k := b.keeper(t, "S")
		var heard []verdict
		k.tell = func(_ context.Context, verdicts []verdict) { heard = append(heard, verdicts...) }

		bad := []string{strings.Repeat("x", 65)} // one more than the column holds
		if s.Kind == servers.KindReal {
			bad = append(bad, "j\u00fcrgen", "\xff") // not in the column's character set; not even text
		}
		b.reserve(t, "ann", "", 1)
		for _, buyer := range bad {
			b.reserve(t, buyer, "", 2)
		}
		b.reserve(t, "bob", "", 1)
		k.finish(t)

		if a := b.audit(t); !a.Balanced || a.Sold != 2 || a.Available != 8 || a.Held != 0 {
			t.Errorf("audit: %+v", a)
		}
		for _, v := range heard {
			good := v.queued.Buyer == "ann" || v.queued.Buyer == "bob"
			if good != (v.refused == "") || good != (v.order != nil) {
				t.Errorf("%q hears %+v", v.queued.Buyer, v)
			}
		}
		if len(heard) != 2+len(bad) {
			t.Errorf("%d heard", len(heard))
		}
	})
}
