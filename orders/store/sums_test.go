package store

import (
	"maps"
	"slices"
	"testing"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/internal/kit"
)

// An order owns the hold with its id and the hold of the attempt that paid it. Holds of other
// attempts have no order.
func TestOrdersByHold(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := openStore(t, sql)
		kit.PutSale(t, store, kit.Sale("S", 10, 10))
		ids := kit.InsertPendingOrders(t, store.DB, 2)
		late, plain := ids[0], ids[1]
		kit.Exec(t, store.DB, "UPDATE orders SET hold_id = '"+late+"+paid' WHERE id = '"+late+"'")
		behind, err := store.OrdersByHold(t.Context(), []string{late, late + "+paid", late + "+other", plain, plain + "+other", "unknown", "unknown+other"})
		check.Must(t, err)
		want := []string{late, late + "+paid", plain}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(behind)); !slices.Equal(got, want) {
			t.Errorf("holds with an order: got %v, want %v", got, want)
		}
		if o := behind[late+"+paid"]; o == nil || o.ID != late {
			t.Errorf("order of the late payment's hold: got %+v, want %s", o, late)
		}
	})
}
