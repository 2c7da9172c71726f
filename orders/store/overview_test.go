package store

import (
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// Paid is what is sold, less what waits for payment.
func TestPaidUnits(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 9)
		check.Must(t, check.Err(store.PutSale(t.Context(), kit.Sale("none", 5, 1))))
		kit.Exec(t, store.DB, "UPDATE orders SET status = ?, quantity = 3 WHERE id IN ?", orders.Paid, ids[:2])
		kit.Exec(t, store.DB, "UPDATE orders SET status = ? WHERE id = ?", orders.Cancelled, ids[2])
		kit.Exec(t, store.DB, "UPDATE sales SET sold = 12 WHERE sku = 'S'") // 6 pending, 2 of 3 units paid
		paid, err := store.PaidUnits(t.Context())
		check.Must(t, err)
		if none, there := paid["none"]; paid["S"] != 6 || none != 0 || !there {
			t.Errorf("%v", paid)
		}
	})
}

// Reading paid units costs what waits for payment, however much is paid.
func TestPaidUnitsAreCheap(t *testing.T) {
	full, ids := stocked(t, servertest.OpenSQL(t, servers.KindReal), 3000)
	kit.Exec(t, full.DB, "UPDATE orders SET status = ?, restored_at = created_at WHERE id > ?", orders.Paid, ids[20])
	kit.Exec(t, full.DB, "ANALYZE TABLE orders")
	store, rowsRead := onOneConnection(t, full)
	before := rowsRead()
	check.Must(t, check.Err(store.PaidUnits(t.Context())))
	if n := rowsRead() - before; n > 300 {
		t.Errorf("it reads %d rows or entries of indexes for 21 open orders of 3,000", n)
	}
}

// Refunds of the last moments, of all sales, the newest first.
func TestRecentRefunds(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 3)
		now := kit.ClockOf(t, store.DB)
		for i, age := range []time.Duration{time.Minute, 10 * time.Second, 0} {
			r := orders.NewClaim(&orders.Order{ID: ids[i], SKU: "S", Buyer: "ann", Currency: "EUR"}, "ref", orders.SoldOut, now.Add(-age))
			check.Must(t, store.DB.Create(r).Error)
		}
		got, err := store.RecentClaims(t.Context(), now.Add(-15*time.Second))
		check.Must(t, err)
		if len(got) != 2 || got[0].OrderID != ids[2] || got[1].OrderID != ids[1] {
			t.Errorf("%+v", got)
		}
	})
}
