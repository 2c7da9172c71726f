package orders

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"flashsale/inventory"
)

// judgement is judge as a plain model: one list, searched anew each time.
func judgement(sale *Sale, all []Order, q inventory.Queued) string {
	var sold, mine int64
	for _, o := range all {
		if o.ID == q.OrderID {
			switch {
			case o.Status.Closed():
				return "is " + o.ID + " give back"
			case o.Status == Paid && o.RestoredAt != nil:
				return "is " + o.ID + " confirm again"
			}
			return "is " + o.ID
		}
		if o.Status == Paid || o.Status == PendingPayment {
			sold += o.Quantity
			if o.Buyer == q.Buyer {
				mine += o.Quantity
			}
		}
	}
	for _, o := range all {
		if q.Key != "" && o.IdempotencyKey != nil && *o.IdempotencyKey == q.Key && o.Buyer == q.Buyer {
			if o.RequestHash != q.Fingerprint {
				return "is " + o.ID + " give back idempotency_mismatch"
			}
			return "is " + o.ID + " give back"
		}
	}
	switch {
	case mine+q.Quantity > sale.PerBuyerLimit:
		return "rejected buyer_limit"
	case sold+q.Quantity > sale.Total:
		return "rejected sold_out"
	}
	return "sold"
}

// drawn is a random sale with rows that keep its rules, and a batch.
func drawn(t *rapid.T) (*Sale, []Order, []inventory.Queued) {
	sale := &Sale{SKU: "S", Total: rapid.Int64Range(0, 12).Draw(t, "total"), PerBuyerLimit: rapid.Int64Range(1, 4).Draw(t, "limit")}
	buyer := rapid.SampledFrom([]string{"ann", "bob", "eve"})
	key := rapid.SampledFrom([]string{"", "", "k", "l"})
	id := rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6", "7", "8", "9"})
	hash := rapid.SampledFrom([]string{"h", "h", "h", "other"})
	quantity := rapid.Int64Range(1, 3)
	var rows []Order
	// Each row comes about as it does in life: judged, and then perhaps ended.
	for range rapid.IntRange(0, 6).Draw(t, "rows") {
		q := queuedOrder(id.Draw(t, "id"), buyer.Draw(t, "buyer"), key.Draw(t, "key"), quantity.Draw(t, "quantity"))
		status := map[string]Status{"sold": PendingPayment, "rejected sold_out": Rejected, "rejected buyer_limit": Rejected}[judgement(sale, rows, q)]
		if status == "" {
			continue
		}
		if status == PendingPayment {
			status = rapid.SampledFrom([]Status{PendingPayment, Paid, Cancelled, Expired}).Draw(t, "status")
		}
		rows = append(rows, row(q.OrderID, q.Buyer, q.Key, q.Quantity, status, status != PendingPayment && rapid.Bool().Draw(t, "restored")))
		if status.Open() {
			sale.Sold += q.Quantity
		}
	}
	batch := make([]inventory.Queued, rapid.IntRange(1, 8).Draw(t, "batch"))
	for i := range batch {
		batch[i] = queuedOrder(id.Draw(t, "id"), buyer.Draw(t, "buyer"), key.Draw(t, "key"), quantity.Draw(t, "quantity"))
		batch[i].Fingerprint = hash.Draw(t, "hash")
	}
	return sale, rows, batch
}

// differs judges a batch and tells where the model says something else. Each
// order is judged by the ledger that next returns.
func differs(sale *Sale, rows []Order, batch []inventory.Queued, next func() *ledger) error {
	all := append([]Order(nil), rows...)
	for i, q := range batch {
		v := next().judge(q)
		if got, want := said(v), judgement(sale, all, q); got != want {
			return fmt.Errorf("order %d of the batch, %+v: %q, the model says %q", i, q, got, want)
		}
		if v.insert {
			all = append(all, *v.order)
		}
	}
	var sold int64
	byBuyer := map[string]int64{}
	for _, o := range all {
		if o.Status.Open() {
			sold += o.Quantity
			byBuyer[o.Buyer] += o.Quantity
		}
	}
	for buyer, units := range byBuyer {
		if units > sale.PerBuyerLimit {
			return fmt.Errorf("%s has %d units of at most %d", buyer, units, sale.PerBuyerLimit)
		}
	}
	if sold > sale.Total {
		return fmt.Errorf("%d units sold of %d", sold, sale.Total)
	}
	return nil
}

func TestJudgeAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sale, rows, batch := drawn(t)
		l := newLedger(sale, judgedAt, rows)
		if err := differs(sale, rows, batch, func() *ledger { return l }); err != nil {
			t.Fatal(err)
		}
	})
}

// A judge who looks only at the rows, and not at what the batch has added to
// them, is found out by the same check.
func TestJudgeWithinTheBatchIsNeeded(t *testing.T) {
	sale := &Sale{SKU: "S", Total: 10, PerBuyerLimit: 3}
	for name, batch := range map[string][]inventory.Queued{
		"limit": {queuedOrder("1", "ann", "", 2), queuedOrder("2", "ann", "", 2)},
		"key":   {queuedOrder("1", "ann", "k", 1), queuedOrder("2", "ann", "k", 1)},
		"id":    {queuedOrder("1", "ann", "", 1), queuedOrder("1", "ann", "", 1)},
		"units": {queuedOrder("1", "ann", "", 3), queuedOrder("2", "bob", "", 3), queuedOrder("3", "eve", "", 3), queuedOrder("4", "joe", "", 3)},
	} {
		forgetful := func() *ledger { return newLedger(sale, judgedAt, nil) }
		if differs(sale, nil, batch, forgetful) == nil {
			t.Errorf("%s: nothing found", name)
		}
	}
}
