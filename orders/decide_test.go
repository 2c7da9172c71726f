package orders_test

import (
	"reflect"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

func otherBody(q inventory.Queued) inventory.Queued { q.Fingerprint = "other"; return q }

func TestDecide(t *testing.T) {
	q := kit.QueuedOrder
	for _, test := range []struct {
		name       string
		sold       int64 // of 10; a buyer may have 3
		rows       []orders.Order
		SaleOrders []inventory.Queued
		want       []string
	}{
		{name: "room for all", SaleOrders: []inventory.Queued{q("1", "ann", "", 1), q("2", "bob", "k", 2)}, want: []string{"sold", "sold"}},
		{name: "the last units, within the batch", sold: 8,
			SaleOrders: []inventory.Queued{q("1", "ann", "", 1), q("2", "bob", "", 2), q("3", "eve", "", 1), q("4", "joe", "", 1)},
			want:       []string{"sold", "rejected sold_out", "sold", "rejected sold_out"}},
		{name: "more sold than the total, after a fault", sold: 12,
			SaleOrders: []inventory.Queued{q("1", "ann", "", 1)}, want: []string{"rejected sold_out"}},
		{name: "buyer's limit, with rows", sold: 2, rows: []orders.Order{kit.Row("0", "ann", "", 2, orders.Paid, true)},
			SaleOrders: []inventory.Queued{q("1", "ann", "", 2), q("2", "ann", "", 1)}, want: []string{"rejected buyer_limit", "sold"}},
		{name: "buyer's limit, within the batch",
			SaleOrders: []inventory.Queued{q("1", "ann", "", 2), q("2", "ann", "", 2), q("3", "bob", "", 3)},
			want:       []string{"sold", "rejected buyer_limit", "sold"}},
		{name: "what was closed does not count", rows: []orders.Order{kit.Row("0", "ann", "", 3, orders.Cancelled, true), kit.Row("00", "ann", "", 3, orders.Rejected, false)},
			SaleOrders: []inventory.Queued{q("1", "ann", "", 3)}, want: []string{"sold"}},
		{name: "known key", sold: 1, rows: []orders.Order{kit.Row("0", "ann", "k", 1, orders.PendingPayment, false)},
			SaleOrders: []inventory.Queued{q("1", "ann", "k", 1), q("2", "bob", "k", 1)}, want: []string{"is 0 give back", "sold"}},
		{name: "known key, sold out", sold: 10, rows: []orders.Order{kit.Row("0", "ann", "k", 3, orders.PendingPayment, false)},
			SaleOrders: []inventory.Queued{q("1", "ann", "k", 3)}, want: []string{"is 0 give back"}},
		{name: "known key of a rejected order", rows: []orders.Order{kit.Row("0", "ann", "k", 1, orders.Rejected, true)},
			SaleOrders: []inventory.Queued{q("1", "ann", "k", 1)}, want: []string{"is 0 give back"}},
		{name: "known key, within the batch", SaleOrders: []inventory.Queued{q("1", "ann", "k", 1), q("2", "ann", "k", 1)},
			want: []string{"sold", "is 1 give back"}},
		{name: "known key, other body", rows: []orders.Order{kit.Row("0", "ann", "k", 1, orders.PendingPayment, false)},
			SaleOrders: []inventory.Queued{otherBody(q("1", "ann", "k", 1))}, want: []string{"is 0 give back idempotency_mismatch"}},
		{name: "the order itself, pending", sold: 1, rows: []orders.Order{kit.Row("1", "ann", "k", 1, orders.PendingPayment, false)},
			SaleOrders: []inventory.Queued{q("1", "ann", "k", 1)}, want: []string{"is 1"}},
		{name: "the order itself, closed", rows: []orders.Order{kit.Row("1", "ann", "", 1, orders.Cancelled, false), kit.Row("2", "bob", "", 1, orders.Expired, true), kit.Row("3", "eve", "", 1, orders.Rejected, true)},
			SaleOrders: []inventory.Queued{q("1", "ann", "", 1), q("2", "bob", "", 1), q("3", "eve", "", 1)},
			want:       []string{"is 1 give back", "is 2 give back", "is 3 give back"}},
		{name: "the order itself, paid", sold: 2, rows: []orders.Order{kit.Row("1", "ann", "", 1, orders.Paid, false), kit.Row("2", "bob", "", 1, orders.Paid, true)},
			SaleOrders: []inventory.Queued{q("1", "ann", "", 1), q("2", "bob", "", 1)}, want: []string{"is 1", "is 2 confirm again"}},
		{name: "the same id twice in the batch", sold: 9, SaleOrders: []inventory.Queued{q("1", "ann", "", 1), q("1", "ann", "", 1)},
			want: []string{"sold", "is 1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := orders.NewLedger(&orders.Sale{SKU: "S", Total: 10, Sold: test.sold, PerBuyerLimit: 3}, kit.DecidedAt, test.rows)
			for i, q := range test.SaleOrders {
				if got := kit.Said(l.Decide(q)); got != test.want[i] {
					t.Errorf("order %s of the batch: %q, want %q", q.OrderID, got, test.want[i])
				}
			}
		})
	}
}

// What a new row says.
func TestDecideMakesTheRow(t *testing.T) {
	sale := &orders.Sale{SKU: "S", Price: 1999, Currency: "EUR", Total: 3, PerBuyerLimit: 3, PaymentWindowS: 900}
	l := orders.NewLedger(sale, kit.DecidedAt, nil)
	q := kit.QueuedOrder("1", "ann", "k", 2)
	q.At = kit.DecidedAt.Add(-time.Second)
	o := l.Decide(q).Order
	key := "k"
	want := &orders.Order{
		ID: "1", SKU: "S", Buyer: "ann", Quantity: 2, Amount: 3998, Currency: "EUR", Status: orders.PendingPayment,
		IdempotencyKey: &key, RequestHash: "h", CreatedAt: q.At, ExpiresAt: kit.DecidedAt.Add(15 * time.Minute),
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("row\n%+v, want\n%+v", o, want)
	}
	no := l.Decide(kit.QueuedOrder("2", "bob", "", 2)).Order
	if no.Status != orders.Rejected || no.ClosedAt == nil || !no.ClosedAt.Equal(kit.DecidedAt) || no.IdempotencyKey != nil {
		t.Errorf("rejected row: %+v", no)
	}
}

// late is a late payment of an order in the queue.
func late(hold, buyer, order, ref string, quantity int64) inventory.Queued {
	return kit.QueuedPayment(hold, buyer, order, ref, quantity)
}

func TestDecideLatePayments(t *testing.T) {
	paidBy := func(o orders.Order, ref, hold string) orders.Order { o.PaymentRef, o.HoldID = &ref, &hold; return o }
	claimed := func(o orders.Order, n int64) orders.Order { o.Claims = n; return o }
	expired := kit.Row("1", "ann", "k", 2, orders.Expired, true)
	for _, test := range []struct {
		name       string
		sold       int64 // of 10; a buyer may have 3
		rows       []orders.Order
		refunds    []orders.LatePayment
		SaleOrders []inventory.Queued
		want       []string
	}{
		{name: "fits", rows: []orders.Order{expired}, SaleOrders: []inventory.Queued{late("h", "ann", "1", "r", 2)}, want: []string{"pays 1"}},
		{name: "twice, and by another", rows: []orders.Order{expired},
			SaleOrders: []inventory.Queued{late("h", "ann", "1", "r", 2), late("i", "ann", "1", "r", 2), late("j", "ann", "1", "q", 2), late("h", "ann", "1", "r", 2)},
			want:       []string{"pays 1", "is 1 give back", "is 1 give back already_paid", "is 1"}},
		{name: "the last units", sold: 9, rows: []orders.Order{expired},
			SaleOrders: []inventory.Queued{late("h", "ann", "1", "r", 2), kit.QueuedOrder("2", "bob", "", 1)},
			want:       []string{"is 1 give back order_closed refund sold_out", "sold"}},
		{name: "its units count for those after it", sold: 8, rows: []orders.Order{expired},
			SaleOrders: []inventory.Queued{late("h", "ann", "1", "r", 2), kit.QueuedOrder("2", "bob", "", 1)},
			want:       []string{"pays 1", "rejected sold_out"}},
		{name: "and for its buyer", rows: []orders.Order{expired},
			SaleOrders: []inventory.Queued{late("h", "ann", "1", "r", 2), kit.QueuedOrder("2", "ann", "", 2)},
			want:       []string{"pays 1", "rejected buyer_limit"}},
		{name: "the buyer's limit", rows: []orders.Order{expired, kit.Row("2", "ann", "", 2, orders.Paid, true)},
			SaleOrders: []inventory.Queued{late("h", "ann", "1", "r", 2)}, want: []string{"is 1 give back order_closed refund buyer_limit"}},
		{name: "refunded before", rows: []orders.Order{expired}, refunds: []orders.LatePayment{{"1", "r"}},
			SaleOrders: []inventory.Queued{late("h", "ann", "1", "r", 2), late("i", "ann", "1", "q", 2), late("h", "ann", "1", "r", 2)},
			want:       []string{"is 1 give back order_closed", "pays 1", "is 1 give back order_closed"}},
		{name: "refunded in the same batch: once", sold: 9, rows: []orders.Order{expired},
			SaleOrders: []inventory.Queued{late("h", "ann", "1", "r", 2), late("i", "ann", "1", "r", 2)},
			want:       []string{"is 1 give back order_closed refund sold_out", "is 1 give back order_closed"}},
		{name: "ten claims: no further reference is taken, nor recorded", rows: []orders.Order{claimed(expired, orders.MaxClaims)},
			SaleOrders: []inventory.Queued{late("h", "ann", "1", "r", 2)}, want: []string{"is 1 give back order_closed"}},
		{name: "the tenth claim, within the batch", sold: 9, rows: []orders.Order{claimed(expired, orders.MaxClaims-1)},
			SaleOrders: []inventory.Queued{late("h", "ann", "1", "r", 2), late("i", "ann", "1", "q", 2)},
			want:       []string{"is 1 give back order_closed refund sold_out", "is 1 give back order_closed"}},
		{name: "units not back yet", rows: []orders.Order{kit.Row("1", "ann", "k", 2, orders.Expired, false)},
			SaleOrders: []inventory.Queued{late("h", "ann", "1", "r", 2)}, want: []string{"is 1 give back order_closed refund not_restored"}},
		{name: "cancelled", rows: []orders.Order{kit.Row("1", "ann", "k", 2, orders.Cancelled, true)},
			SaleOrders: []inventory.Queued{late("h", "ann", "1", "r", 2)}, want: []string{"is 1 give back order_closed refund cancelled"}},
		{name: "seen again", sold: 2, rows: []orders.Order{paidBy(kit.Row("1", "ann", "k", 2, orders.Paid, false), "r", "h")},
			SaleOrders: []inventory.Queued{late("h", "ann", "1", "r", 2)}, want: []string{"is 1"}},
		{name: "seen again by a gate that has gone back", sold: 2, rows: []orders.Order{paidBy(kit.Row("1", "ann", "k", 2, orders.Paid, true), "r", "h")},
			SaleOrders: []inventory.Queued{late("h", "ann", "1", "r", 2)}, want: []string{"is 1 confirm again"}},
		{name: "unknown, or not closed", rows: []orders.Order{kit.Row("1", "ann", "k", 2, orders.PendingPayment, false)},
			SaleOrders: []inventory.Queued{late("h", "ann", "1", "r", 2), late("i", "ann", "2", "r", 2)},
			want:       []string{"is 1 give back unavailable", "is nothing give back unavailable"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			put := kit.Sale("S", 10, 3)
			put.Sold = test.sold
			l := orders.NewLedger(&put, kit.DecidedAt, test.rows)
			for _, p := range test.refunds {
				l.Claimed[p] = true
			}
			var got []string
			for _, q := range test.SaleOrders {
				got = append(got, kit.Said(l.Decide(q)))
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
