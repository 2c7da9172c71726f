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

func TestPaidUnits(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 9)
		check.Must(t, check.Err(store.PutSale(t.Context(), kit.Sale("none", 5, 1))))
		kit.Exec(t, store.DB, "UPDATE orders SET status = ?, quantity = 3 WHERE id IN ?", orders.Paid, ids[:2])
		kit.Exec(t, store.DB, "UPDATE orders SET status = ? WHERE id = ?", orders.Cancelled, ids[2])
		kit.Exec(t, store.DB, "UPDATE sales SET sold = 12 WHERE sku = 'S'") // 6 pending orders of 1 unit, 2 paid orders of 3 units
		paid, err := store.PaidUnits(t.Context())
		check.Must(t, err)
		if none, ok := paid["none"]; paid["S"] != 6 || none != 0 || !ok {
			t.Errorf("paid units: got %v, want 6 of S and 0 of none", paid)
		}
	})
}

// PaidUnits reads the pending orders and no paid orders.
func TestPaidUnitsAreCheap(t *testing.T) {
	full, ids := stocked(t, servertest.OpenSQL(t, servers.KindReal), 3000)
	kit.Exec(t, full.DB, "UPDATE orders SET status = ?, restored_at = created_at WHERE id > ?", orders.Paid, ids[20])
	kit.Exec(t, full.DB, "ANALYZE TABLE orders")
	store, rowsRead := onOneConnection(t, full)
	before := rowsRead()
	check.Must(t, check.Err(store.PaidUnits(t.Context())))
	if n := rowsRead() - before; n > 300 {
		t.Errorf("rows and index entries read for 21 pending orders of 3,000: got %d, want at most 300", n)
	}
}

func TestRecentClaims(t *testing.T) {
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
			t.Errorf("recent claims: got %+v, want those of %s and %s", got, ids[2], ids[1])
		}
	})
}
