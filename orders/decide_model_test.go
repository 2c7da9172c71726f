package orders_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// drawn returns a random sale, rows that its rules allow, and a batch.
func drawn(t *rapid.T) (*orders.Sale, []orders.Order, []inventory.QueuedOrder) {
	sale := &orders.Sale{SKU: "S", Total: rapid.Int64Range(0, 12).Draw(t, "total"), UnitsPerBuyer: rapid.Int64Range(1, 4).Draw(t, "limit")}
	buyer := rapid.SampledFrom([]string{"ann", "bob", "eve"})
	key := rapid.SampledFrom([]string{"", "", "k", "l"})
	id := rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6", "7", "8", "9"})
	hash := rapid.SampledFrom([]string{"h", "h", "h", "other"})
	quantity := rapid.Int64Range(1, 3)
	var rows []orders.Order
	// Each row is an order that the rules accepted or rejected, as in production. An accepted
	// order may be pending, paid, cancelled or expired.
	for range rapid.IntRange(0, 6).Draw(t, "rows") {
		q := kit.QueuedOrder(id.Draw(t, "id"), buyer.Draw(t, "buyer"), key.Draw(t, "key"), quantity.Draw(t, "quantity"))
		status := map[string]orders.Status{"sold": orders.PendingPayment, "rejected sold_out": orders.Rejected, "rejected buyer_limit": orders.Rejected}[kit.ModelDecision(sale, rows, q)]
		if status == "" {
			continue
		}
		if status == orders.PendingPayment {
			status = rapid.SampledFrom([]orders.Status{orders.PendingPayment, orders.Paid, orders.Cancelled, orders.Expired}).Draw(t, "status")
		}
		rows = append(rows, kit.Row(q.OrderID, q.Buyer, q.Key, q.Quantity, status, status != orders.PendingPayment && rapid.Bool().Draw(t, "restored")))
		if status.CountsAsSold() {
			sale.Sold += q.Quantity
		}
	}
	batch := make([]inventory.QueuedOrder, rapid.IntRange(1, 8).Draw(t, "batch"))
	for i := range batch {
		batch[i] = kit.QueuedOrder(id.Draw(t, "id"), buyer.Draw(t, "buyer"), key.Draw(t, "key"), quantity.Draw(t, "quantity"))
		batch[i].Fingerprint = hash.Draw(t, "hash")
	}
	return sale, rows, batch
}

// differs returns an error if a decision differs from the model. next returns the ledger for
// each order of the batch.
func differs(sale *orders.Sale, rows []orders.Order, batch []inventory.QueuedOrder, next func() *orders.Ledger) error {
	all := append([]orders.Order(nil), rows...)
	for i, q := range batch {
		d := next().Decide(q)
		if got, want := kit.DecisionText(d), kit.ModelDecision(sale, all, q); got != want {
			return fmt.Errorf("order %d of the batch, %+v: got %q, want %q", i, q, got, want)
		}
		if d.Action == orders.Insert {
			all = append(all, *d.Order)
		}
	}
	var sold int64
	byBuyer := map[string]int64{}
	for _, o := range all {
		if o.Status.CountsAsSold() {
			sold += o.Quantity
			byBuyer[o.Buyer] += o.Quantity
		}
	}
	for buyer, units := range byBuyer {
		if units > sale.UnitsPerBuyer {
			return fmt.Errorf("buyer %s in the model: got %d units, want at most %d", buyer, units, sale.UnitsPerBuyer)
		}
	}
	if sold > sale.Total {
		return fmt.Errorf("sale in the model: got %d units sold, want at most %d", sold, sale.Total)
	}
	return nil
}

func TestDecideAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sale, rows, batch := drawn(t)
		l := orders.NewLedger(sale, kit.DecidedAt, rows)
		if err := differs(sale, rows, batch, func() *orders.Ledger { return l }); err != nil {
			t.Fatalf("decisions differ from the model: %v", err)
		}
	})
}

// The model finds decisions that ignore the earlier orders of the batch.
func TestModelFindsDecisionsWithoutTheBatch(t *testing.T) {
	sale := &orders.Sale{SKU: "S", Total: 10, UnitsPerBuyer: 3}
	for name, batch := range map[string][]inventory.QueuedOrder{
		"limit": {kit.QueuedOrder("1", "ann", "", 2), kit.QueuedOrder("2", "ann", "", 2)},
		"key":   {kit.QueuedOrder("1", "ann", "k", 1), kit.QueuedOrder("2", "ann", "k", 1)},
		"id":    {kit.QueuedOrder("1", "ann", "", 1), kit.QueuedOrder("1", "ann", "", 1)},
		"units": {kit.QueuedOrder("1", "ann", "", 3), kit.QueuedOrder("2", "bob", "", 3), kit.QueuedOrder("3", "eve", "", 3), kit.QueuedOrder("4", "joe", "", 3)},
	} {
		forgetful := func() *orders.Ledger { return orders.NewLedger(sale, kit.DecidedAt, nil) }
		if differs(sale, nil, batch, forgetful) == nil {
			t.Errorf("broken ledger %s: the model found no difference, want one", name)
		}
	}
}
