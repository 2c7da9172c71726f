package store

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// The hand-written SQL writes every column that Decide sets, for rows of every kind, and
// reads every column that Decide needs.
func TestHandWrittenSQL(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, _ := stocked(t, sql, 0)
		now := kit.ClockOf(t, store.DB)
		held := orders.NewLedger(&orders.Sale{SKU: "S", Price: 1999, Currency: "EUR", Total: 2, UnitsPerBuyer: 2, PaymentWindowS: 900, ClosesAt: now.Add(time.Hour)}, now, nil)
		none := orders.NewLedger(held.Sale, now, nil)
		none.OnPayment = true
		rows := []*orders.Order{
			held.Decide(kit.QueuedOrder("1", "ann", "k", 2)).Order,
			held.Decide(kit.QueuedOrder("2", "bob", "", 1)).Order, // rejected: nothing is left
			none.Decide(kit.QueuedOrder("3", "ann", "", 1)).Order,
		}
		if got := []orders.Status{rows[0].Status, rows[1].Status, rows[2].Status}; !slices.Equal(got, []orders.Status{orders.PendingPayment, orders.Rejected, orders.AwaitingPayment}) {
			t.Fatalf("statuses: got %v, want pending_payment, rejected and awaiting_payment", got)
		}
		var read []orders.Order
		err := store.Transact(t.Context(), func(tx *gorm.DB) (err error) {
			if err := insertOrders(tx, rows); err != nil {
				return err
			}
			read, err = readForLedger(tx, store.ordersByKey(), "sku = ? AND buyer IN (?,?) ORDER BY id", []any{"S", "ann", "bob"})
			return err
		})
		check.Must(t, err)
		stored := kit.RowsOf(t, store.DB)
		for i, o := range rows {
			if got := stored[o.ID]; !reflect.DeepEqual(&got, o) {
				t.Errorf("row %s: got\n%+v, want\n%+v", o.ID, got, o)
			}
			want := orders.Order{
				ID: o.ID, SKU: o.SKU, Buyer: o.Buyer, Quantity: o.Quantity, Status: o.Status,
				IdempotencyKey: o.IdempotencyKey, RequestHash: o.RequestHash, RestoredAt: o.RestoredAt,
			}
			if i >= len(read) || !reflect.DeepEqual(read[i], want) {
				t.Errorf("row %d for the ledger: got\n%+v, want\n%+v", i, read, want)
			}
		}
	})
}
