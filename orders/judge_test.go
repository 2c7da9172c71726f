package orders

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"flashsale/inventory"
)

var judgedAt = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// said is a verdict in a few words.
func said(v verdict) string {
	var words []string
	switch {
	case v.insert && v.order.Status == Rejected:
		words = append(words, "rejected", v.order.Reason)
	case v.insert:
		words = append(words, "sold")
	case v.late:
		words = append(words, "pays", v.order.ID)
	case v.order == nil:
		words = append(words, "is nothing")
	default:
		words = append(words, "is", v.order.ID)
	}
	if v.giveBack {
		words = append(words, "give back")
	}
	if v.unrestore {
		words = append(words, "confirm again")
	}
	if v.refused != "" {
		words = append(words, v.refused)
	}
	if v.refund != nil {
		words = append(words, "refund", v.refund.Reason)
	}
	return strings.Join(words, " ")
}

// row is a durable order; key "" for none.
func row(id, buyer, key string, quantity int64, status Status, restored bool) Order {
	o := Order{ID: id, SKU: "S", Buyer: buyer, Quantity: quantity, Status: status, RequestHash: "h"}
	if key != "" {
		o.IdempotencyKey = &key
	}
	if restored {
		o.RestoredAt = &judgedAt
	}
	return o
}

func queuedOrder(id, buyer, key string, quantity int64) inventory.Queued {
	return inventory.Queued{OrderID: id, Buyer: buyer, Key: key, Quantity: quantity, Fingerprint: "h", At: judgedAt}
}

func otherBody(q inventory.Queued) inventory.Queued { q.Fingerprint = "other"; return q }

func TestJudge(t *testing.T) {
	q := queuedOrder
	for _, test := range []struct {
		name  string
		sold  int64 // of 10; a buyer may have 3
		rows  []Order
		batch []inventory.Queued
		want  []string
	}{
		{name: "room for all", batch: []inventory.Queued{q("1", "ann", "", 1), q("2", "bob", "k", 2)}, want: []string{"sold", "sold"}},
		{name: "the last units, within the batch", sold: 8,
			batch: []inventory.Queued{q("1", "ann", "", 1), q("2", "bob", "", 2), q("3", "eve", "", 1), q("4", "joe", "", 1)},
			want:  []string{"sold", "rejected sold_out", "sold", "rejected sold_out"}},
		{name: "more sold than the total, after a fault", sold: 12,
			batch: []inventory.Queued{q("1", "ann", "", 1)}, want: []string{"rejected sold_out"}},
		{name: "buyer's limit, with rows", sold: 2, rows: []Order{row("0", "ann", "", 2, Paid, true)},
			batch: []inventory.Queued{q("1", "ann", "", 2), q("2", "ann", "", 1)}, want: []string{"rejected buyer_limit", "sold"}},
		{name: "buyer's limit, within the batch",
			batch: []inventory.Queued{q("1", "ann", "", 2), q("2", "ann", "", 2), q("3", "bob", "", 3)},
			want:  []string{"sold", "rejected buyer_limit", "sold"}},
		{name: "what was closed does not count", rows: []Order{row("0", "ann", "", 3, Cancelled, true), row("00", "ann", "", 3, Rejected, false)},
			batch: []inventory.Queued{q("1", "ann", "", 3)}, want: []string{"sold"}},
		{name: "known key", sold: 1, rows: []Order{row("0", "ann", "k", 1, PendingPayment, false)},
			batch: []inventory.Queued{q("1", "ann", "k", 1), q("2", "bob", "k", 1)}, want: []string{"is 0 give back", "sold"}},
		{name: "known key, sold out", sold: 10, rows: []Order{row("0", "ann", "k", 3, PendingPayment, false)},
			batch: []inventory.Queued{q("1", "ann", "k", 3)}, want: []string{"is 0 give back"}},
		{name: "known key of a rejected order", rows: []Order{row("0", "ann", "k", 1, Rejected, true)},
			batch: []inventory.Queued{q("1", "ann", "k", 1)}, want: []string{"is 0 give back"}},
		{name: "known key, within the batch", batch: []inventory.Queued{q("1", "ann", "k", 1), q("2", "ann", "k", 1)},
			want: []string{"sold", "is 1 give back"}},
		{name: "known key, other body", rows: []Order{row("0", "ann", "k", 1, PendingPayment, false)},
			batch: []inventory.Queued{otherBody(q("1", "ann", "k", 1))}, want: []string{"is 0 give back idempotency_mismatch"}},
		{name: "the order itself, pending", sold: 1, rows: []Order{row("1", "ann", "k", 1, PendingPayment, false)},
			batch: []inventory.Queued{q("1", "ann", "k", 1)}, want: []string{"is 1"}},
		{name: "the order itself, closed", rows: []Order{row("1", "ann", "", 1, Cancelled, false), row("2", "bob", "", 1, Expired, true), row("3", "eve", "", 1, Rejected, true)},
			batch: []inventory.Queued{q("1", "ann", "", 1), q("2", "bob", "", 1), q("3", "eve", "", 1)},
			want:  []string{"is 1 give back", "is 2 give back", "is 3 give back"}},
		{name: "the order itself, paid", sold: 2, rows: []Order{row("1", "ann", "", 1, Paid, false), row("2", "bob", "", 1, Paid, true)},
			batch: []inventory.Queued{q("1", "ann", "", 1), q("2", "bob", "", 1)}, want: []string{"is 1", "is 2 confirm again"}},
		{name: "the same id twice in the batch", sold: 9, batch: []inventory.Queued{q("1", "ann", "", 1), q("1", "ann", "", 1)},
			want: []string{"sold", "is 1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLedger(&Sale{SKU: "S", Total: 10, Sold: test.sold, PerBuyerLimit: 3}, judgedAt, test.rows)
			for i, q := range test.batch {
				if got := said(l.judge(q)); got != test.want[i] {
					t.Errorf("order %s of the batch: %q, want %q", q.OrderID, got, test.want[i])
				}
			}
		})
	}
}

// What a new row says.
func TestJudgeMakesTheRow(t *testing.T) {
	sale := &Sale{SKU: "S", Price: 1999, Currency: "EUR", Total: 3, PerBuyerLimit: 3, PaymentWindowS: 900}
	l := newLedger(sale, judgedAt, nil)
	q := queuedOrder("1", "ann", "k", 2)
	q.At = judgedAt.Add(-time.Second)
	o := l.judge(q).order
	key := "k"
	want := &Order{
		ID: "1", SKU: "S", Buyer: "ann", Quantity: 2, Amount: 3998, Currency: "EUR", Status: PendingPayment,
		IdempotencyKey: &key, RequestHash: "h", CreatedAt: q.At, ExpiresAt: judgedAt.Add(15 * time.Minute),
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("row\n%+v, want\n%+v", o, want)
	}
	no := l.judge(queuedOrder("2", "bob", "", 2)).order
	if no.Status != Rejected || no.ClosedAt == nil || !no.ClosedAt.Equal(judgedAt) || no.IdempotencyKey != nil {
		t.Errorf("rejected row: %+v", no)
	}
}

// late is a late payment of an order in the queue.
func late(hold, buyer, order, ref string, quantity int64) inventory.Queued {
	return queuedOrder(hold, buyer, latePayment{order, ref}.key(), quantity)
}

func TestJudgeLatePayments(t *testing.T) {
	paidBy := func(o Order, ref, hold string) Order { o.PaymentRef, o.HoldID = &ref, &hold; return o }
	expired := row("1", "ann", "k", 2, Expired, true)
	for _, test := range []struct {
		name    string
		sold    int64 // of 10; a buyer may have 3
		rows    []Order
		refunds []latePayment
		batch   []inventory.Queued
		want    []string
	}{
		{name: "fits", rows: []Order{expired}, batch: []inventory.Queued{late("h", "ann", "1", "r", 2)}, want: []string{"pays 1"}},
		{name: "twice, and by another", rows: []Order{expired},
			batch: []inventory.Queued{late("h", "ann", "1", "r", 2), late("i", "ann", "1", "r", 2), late("j", "ann", "1", "q", 2), late("h", "ann", "1", "r", 2)},
			want:  []string{"pays 1", "is 1 give back", "is 1 give back already_paid", "is 1"}},
		{name: "the last units", sold: 9, rows: []Order{expired},
			batch: []inventory.Queued{late("h", "ann", "1", "r", 2), queuedOrder("2", "bob", "", 1)},
			want:  []string{"is 1 give back order_closed refund sold_out", "sold"}},
		{name: "its units count for those after it", sold: 8, rows: []Order{expired},
			batch: []inventory.Queued{late("h", "ann", "1", "r", 2), queuedOrder("2", "bob", "", 1)},
			want:  []string{"pays 1", "rejected sold_out"}},
		{name: "and for its buyer", rows: []Order{expired},
			batch: []inventory.Queued{late("h", "ann", "1", "r", 2), queuedOrder("2", "ann", "", 2)},
			want:  []string{"pays 1", "rejected buyer_limit"}},
		{name: "the buyer's limit", rows: []Order{expired, row("2", "ann", "", 2, Paid, true)},
			batch: []inventory.Queued{late("h", "ann", "1", "r", 2)}, want: []string{"is 1 give back order_closed refund buyer_limit"}},
		{name: "refunded before", rows: []Order{expired}, refunds: []latePayment{{"1", "r"}},
			batch: []inventory.Queued{late("h", "ann", "1", "r", 2), late("i", "ann", "1", "q", 2), late("h", "ann", "1", "r", 2)},
			want:  []string{"is 1 give back order_closed", "pays 1", "is 1 give back order_closed"}},
		{name: "refunded in the same batch: once", sold: 9, rows: []Order{expired},
			batch: []inventory.Queued{late("h", "ann", "1", "r", 2), late("i", "ann", "1", "r", 2)},
			want:  []string{"is 1 give back order_closed refund sold_out", "is 1 give back order_closed"}},
		{name: "units not back yet", rows: []Order{row("1", "ann", "k", 2, Expired, false)},
			batch: []inventory.Queued{late("h", "ann", "1", "r", 2)}, want: []string{"is 1 give back order_closed refund not_restored"}},
		{name: "cancelled", rows: []Order{row("1", "ann", "k", 2, Cancelled, true)},
			batch: []inventory.Queued{late("h", "ann", "1", "r", 2)}, want: []string{"is 1 give back order_closed refund cancelled"}},
		{name: "seen again", sold: 2, rows: []Order{paidBy(row("1", "ann", "k", 2, Paid, false), "r", "h")},
			batch: []inventory.Queued{late("h", "ann", "1", "r", 2)}, want: []string{"is 1"}},
		{name: "seen again by a gate that has gone back", sold: 2, rows: []Order{paidBy(row("1", "ann", "k", 2, Paid, true), "r", "h")},
			batch: []inventory.Queued{late("h", "ann", "1", "r", 2)}, want: []string{"is 1 confirm again"}},
		{name: "unknown, or not closed", rows: []Order{row("1", "ann", "k", 2, PendingPayment, false)},
			batch: []inventory.Queued{late("h", "ann", "1", "r", 2), late("i", "ann", "2", "r", 2)},
			want:  []string{"is 1 give back unavailable", "is nothing give back unavailable"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			put := sale("S", 10, 3)
			put.Sold = test.sold
			l := newLedger(&put, judgedAt, test.rows)
			for _, p := range test.refunds {
				l.refunded[p] = true
			}
			var got []string
			for _, q := range test.batch {
				got = append(got, said(l.judge(q)))
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
