package orders

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"flashsale/loadtest/servers/servertest"
)

// What a keeper writes by hand is all that the judge says of a row, whichever
// kind it is, and what it reads by hand is all that the judge asks for.
func TestRowsByHand(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, _ := stocked(t, sql, 0)
		now := clockOf(t, store)
		held := newLedger(&Sale{SKU: "S", Price: 1999, Currency: "EUR", Total: 2, PerBuyerLimit: 2, PaymentWindowS: 900, ClosesAt: now.Add(time.Hour)}, now, nil)
		none := newLedger(held.sale, now, nil)
		none.unheld = true
		rows := []*Order{
			held.judge(queuedOrder("1", "ann", "k", 2)).order,
			held.judge(queuedOrder("2", "bob", "", 1)).order, // rejected: nothing is left
			none.judge(queuedOrder("3", "ann", "", 1)).order,
		}
		if got := []Status{rows[0].Status, rows[1].Status, rows[2].Status}; !slices.Equal(got, []Status{PendingPayment, Rejected, Unheld}) {
			t.Fatalf("the rows are %v", got)
		}
		var judged []Order
		err := store.transact(t.Context(), func(tx *gorm.DB) (err error) {
			if err := insertOrders(tx, rows); err != nil {
				return err
			}
			judged, err = readJudged(tx, store.ordersByKey(), "sku = ? AND buyer IN (?,?) ORDER BY id", []any{"S", "ann", "bob"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		there := rowsOf(t, store)
		for i, o := range rows {
			if got := there[o.ID]; !reflect.DeepEqual(&got, o) {
				t.Errorf("inserted\n%+v, in the table is\n%+v", o, got)
			}
			want := Order{
				ID: o.ID, SKU: o.SKU, Buyer: o.Buyer, Quantity: o.Quantity, Status: o.Status,
				IdempotencyKey: o.IdempotencyKey, RequestHash: o.RequestHash, RestoredAt: o.RestoredAt,
			}
			if i >= len(judged) || !reflect.DeepEqual(judged[i], want) {
				t.Errorf("read\n%+v, of them want\n%+v", judged, want)
			}
		}
	})
}
