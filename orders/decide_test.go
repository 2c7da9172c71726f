package orders_test

import (
	"reflect"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

func otherBody(q inventory.QueuedOrder) inventory.QueuedOrder { q.Fingerprint = "other"; return q }

func TestDecide(t *testing.T) {
	q := kit.QueuedOrder
	for _, test := range []struct {
		name  string
		sold  int64 // units sold of 10; the limit per buyer is 3
		rows  []orders.Order
		batch []inventory.QueuedOrder
		want  []string
	}{
		{name: "room for all", batch: []inventory.QueuedOrder{q("1", "ann", "", 1), q("2", "bob", "k", 2)}, want: []string{"sold", "sold"}},
		{name: "the last units, within the batch", sold: 8,
			batch: []inventory.QueuedOrder{q("1", "ann", "", 1), q("2", "bob", "", 2), q("3", "eve", "", 1), q("4", "joe", "", 1)},
			want:  []string{"sold", "rejected sold_out", "sold", "rejected sold_out"}},
		{name: "more sold than the total, after a fault", sold: 12,
			batch: []inventory.QueuedOrder{q("1", "ann", "", 1)}, want: []string{"rejected sold_out"}},
		{name: "buyer's limit, with rows", sold: 2, rows: []orders.Order{kit.Row("0", "ann", "", 2, orders.Paid, true)},
			batch: []inventory.QueuedOrder{q("1", "ann", "", 2), q("2", "ann", "", 1)}, want: []string{"rejected buyer_limit", "sold"}},
		{name: "buyer's limit, within the batch",
			batch: []inventory.QueuedOrder{q("1", "ann", "", 2), q("2", "ann", "", 2), q("3", "bob", "", 3)},
			want:  []string{"sold", "rejected buyer_limit", "sold"}},
		{name: "closed orders do not count", rows: []orders.Order{kit.Row("0", "ann", "", 3, orders.Cancelled, true), kit.Row("00", "ann", "", 3, orders.Rejected, false)},
			batch: []inventory.QueuedOrder{q("1", "ann", "", 3)}, want: []string{"sold"}},
		{name: "known key", sold: 1, rows: []orders.Order{kit.Row("0", "ann", "k", 1, orders.PendingPayment, false)},
			batch: []inventory.QueuedOrder{q("1", "ann", "k", 1), q("2", "bob", "k", 1)}, want: []string{"is 0 release", "sold"}},
		{name: "known key, sold out", sold: 10, rows: []orders.Order{kit.Row("0", "ann", "k", 3, orders.PendingPayment, false)},
			batch: []inventory.QueuedOrder{q("1", "ann", "k", 3)}, want: []string{"is 0 release"}},
		{name: "known key of a rejected order", rows: []orders.Order{kit.Row("0", "ann", "k", 1, orders.Rejected, true)},
			batch: []inventory.QueuedOrder{q("1", "ann", "k", 1)}, want: []string{"is 0 release"}},
		{name: "known key, within the batch", batch: []inventory.QueuedOrder{q("1", "ann", "k", 1), q("2", "ann", "k", 1)},
			want: []string{"sold", "is 1 release"}},
		{name: "known key, another body", rows: []orders.Order{kit.Row("0", "ann", "k", 1, orders.PendingPayment, false)},
			batch: []inventory.QueuedOrder{otherBody(q("1", "ann", "k", 1))}, want: []string{"is 0 release idempotency_mismatch"}},
		{name: "the order itself, pending", sold: 1, rows: []orders.Order{kit.Row("1", "ann", "k", 1, orders.PendingPayment, false)},
			batch: []inventory.QueuedOrder{q("1", "ann", "k", 1)}, want: []string{"is 1"}},
		{name: "the order itself, closed", rows: []orders.Order{kit.Row("1", "ann", "", 1, orders.Cancelled, false), kit.Row("2", "bob", "", 1, orders.Expired, true), kit.Row("3", "eve", "", 1, orders.Rejected, true)},
			batch: []inventory.QueuedOrder{q("1", "ann", "", 1), q("2", "bob", "", 1), q("3", "eve", "", 1)},
			want:  []string{"is 1 release", "is 2 release", "is 3 release"}},
		{name: "the order itself, paid", sold: 2, rows: []orders.Order{kit.Row("1", "ann", "", 1, orders.Paid, false), kit.Row("2", "bob", "", 1, orders.Paid, true)},
			batch: []inventory.QueuedOrder{q("1", "ann", "", 1), q("2", "bob", "", 1)}, want: []string{"is 1", "is 2 reconfirm"}},
		{name: "the same id twice in the batch", sold: 9, batch: []inventory.QueuedOrder{q("1", "ann", "", 1), q("1", "ann", "", 1)},
			want: []string{"sold", "is 1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := orders.NewLedger(&orders.Sale{SKU: "S", Total: 10, Sold: test.sold, UnitsPerBuyer: 3}, kit.DecidedAt, test.rows)
			for i, q := range test.batch {
				if got := kit.DecisionText(l.Decide(q)); got != test.want[i] {
					t.Errorf("order %s of the batch: got %q, want %q", q.OrderID, got, test.want[i])
				}
			}
		})
	}
}

func TestDecideFillsTheRow(t *testing.T) {
	sale := &orders.Sale{SKU: "S", Price: 1999, Currency: "EUR", Total: 3, UnitsPerBuyer: 3, PaymentWindowS: 900}
	l := orders.NewLedger(sale, kit.DecidedAt, nil)
	q := kit.QueuedOrder("1", "ann", "k", 2)
	q.AcceptedAt = kit.DecidedAt.Add(-time.Second)
	o := l.Decide(q).Order
	key := "k"
	want := &orders.Order{
		ID: "1", SKU: "S", Buyer: "ann", Quantity: 2, Amount: 3998, Currency: "EUR", Status: orders.PendingPayment,
		IdempotencyKey: &key, RequestHash: "h", CreatedAt: q.AcceptedAt, ExpiresAt: kit.DecidedAt.Add(15 * time.Minute),
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("accepted order: got\n%+v, want\n%+v", o, want)
	}
	rejected := l.Decide(kit.QueuedOrder("2", "bob", "", 2)).Order
	if rejected.Status != orders.Rejected || rejected.ClosedAt == nil || !rejected.ClosedAt.Equal(kit.DecidedAt) || rejected.IdempotencyKey != nil {
		t.Errorf("second order: got %+v, want it rejected and closed at %v, without a key", rejected, kit.DecidedAt)
	}
}

// late returns an attempt of a late payment, as it is in the queue.
func late(hold, buyer, order, ref string, quantity int64) inventory.QueuedOrder {
	return kit.QueuedPayment(hold, buyer, order, ref, quantity)
}

func TestDecideLatePayments(t *testing.T) {
	paidBy := func(o orders.Order, ref, hold string) orders.Order { o.PaymentRef, o.HoldID = &ref, &hold; return o }
	claimed := func(o orders.Order, n int64) orders.Order { o.Claims = n; return o }
	expired := kit.Row("1", "ann", "k", 2, orders.Expired, true)
	for _, test := range []struct {
		name    string
		sold    int64 // units sold of 10; the limit per buyer is 3
		rows    []orders.Order
		refunds []orders.Payment
		batch   []inventory.QueuedOrder
		want    []string
	}{
		{name: "enough units", rows: []orders.Order{expired}, batch: []inventory.QueuedOrder{late("h", "ann", "1", "r", 2)}, want: []string{"pays 1"}},
		{name: "paid twice, and by another payment", rows: []orders.Order{expired},
			batch: []inventory.QueuedOrder{late("h", "ann", "1", "r", 2), late("i", "ann", "1", "r", 2), late("j", "ann", "1", "q", 2), late("h", "ann", "1", "r", 2)},
			want:  []string{"pays 1", "is 1 release", "is 1 release already_paid", "is 1"}},
		{name: "the last units", sold: 9, rows: []orders.Order{expired},
			batch: []inventory.QueuedOrder{late("h", "ann", "1", "r", 2), kit.QueuedOrder("2", "bob", "", 1)},
			want:  []string{"is 1 release order_closed claim sold_out", "sold"}},
		{name: "the units count for later orders", sold: 8, rows: []orders.Order{expired},
			batch: []inventory.QueuedOrder{late("h", "ann", "1", "r", 2), kit.QueuedOrder("2", "bob", "", 1)},
			want:  []string{"pays 1", "rejected sold_out"}},
		{name: "the units count for the buyer", rows: []orders.Order{expired},
			batch: []inventory.QueuedOrder{late("h", "ann", "1", "r", 2), kit.QueuedOrder("2", "ann", "", 2)},
			want:  []string{"pays 1", "rejected buyer_limit"}},
		{name: "the buyer's limit", rows: []orders.Order{expired, kit.Row("2", "ann", "", 2, orders.Paid, true)},
			batch: []inventory.QueuedOrder{late("h", "ann", "1", "r", 2)}, want: []string{"is 1 release order_closed claim buyer_limit"}},
		{name: "a claim exists", rows: []orders.Order{expired}, refunds: []orders.Payment{{"1", "r"}},
			batch: []inventory.QueuedOrder{late("h", "ann", "1", "r", 2), late("i", "ann", "1", "q", 2), late("h", "ann", "1", "r", 2)},
			want:  []string{"is 1 release order_closed", "pays 1", "is 1 release order_closed"}},
		{name: "the same payment twice in the batch: one claim", sold: 9, rows: []orders.Order{expired},
			batch: []inventory.QueuedOrder{late("h", "ann", "1", "r", 2), late("i", "ann", "1", "r", 2)},
			want:  []string{"is 1 release order_closed claim sold_out", "is 1 release order_closed"}},
		{name: "ten claims: a further reference is refused and not recorded", rows: []orders.Order{claimed(expired, orders.MaxClaims)},
			batch: []inventory.QueuedOrder{late("h", "ann", "1", "r", 2)}, want: []string{"is 1 release order_closed"}},
		{name: "the tenth claim, within the batch", sold: 9, rows: []orders.Order{claimed(expired, orders.MaxClaims-1)},
			batch: []inventory.QueuedOrder{late("h", "ann", "1", "r", 2), late("i", "ann", "1", "q", 2)},
			want:  []string{"is 1 release order_closed claim sold_out", "is 1 release order_closed"}},
		{name: "units not released yet", rows: []orders.Order{kit.Row("1", "ann", "k", 2, orders.Expired, false)},
			batch: []inventory.QueuedOrder{late("h", "ann", "1", "r", 2)}, want: []string{"is 1 release order_closed claim not_restored"}},
		{name: "cancelled", rows: []orders.Order{kit.Row("1", "ann", "k", 2, orders.Cancelled, true)},
			batch: []inventory.QueuedOrder{late("h", "ann", "1", "r", 2)}, want: []string{"is 1 release order_closed claim cancelled"}},
		{name: "the same attempt again", sold: 2, rows: []orders.Order{paidBy(kit.Row("1", "ann", "k", 2, orders.Paid, false), "r", "h")},
			batch: []inventory.QueuedOrder{late("h", "ann", "1", "r", 2)}, want: []string{"is 1"}},
		{name: "the same attempt again, after Redis has lost data", sold: 2, rows: []orders.Order{paidBy(kit.Row("1", "ann", "k", 2, orders.Paid, true), "r", "h")},
			batch: []inventory.QueuedOrder{late("h", "ann", "1", "r", 2)}, want: []string{"is 1 reconfirm"}},
		{name: "no such order, or not closed", rows: []orders.Order{kit.Row("1", "ann", "k", 2, orders.PendingPayment, false)},
			batch: []inventory.QueuedOrder{late("h", "ann", "1", "r", 2), late("i", "ann", "2", "r", 2)},
			want:  []string{"is 1 release unavailable", "is nothing release unavailable"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			put := kit.Sale("S", 10, 3)
			put.Sold = test.sold
			l := orders.NewLedger(&put, kit.DecidedAt, test.rows)
			for _, p := range test.refunds {
				l.Claimed[p] = true
			}
			var got []string
			for _, q := range test.batch {
				got = append(got, kit.DecisionText(l.Decide(q)))
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("decisions about late payments: got %q, want %q", got, test.want)
			}
		})
	}
}
