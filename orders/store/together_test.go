package store

import (
	"fmt"
	"testing"

	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// countTogether counts the units of all SKUs, or none if the fence or the total of one SKU does
// not allow it.
func TestCountTogether(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := openStore(t, sql)
		var batches []LockedBatch
		for _, sku := range []string{"A", "B", "C", "D"} {
			check.Must(t, check.Err(store.PutSale(t.Context(), kit.Sale(sku, 5, 1))))
			taken, err := store.TakeOver(t.Context(), sku)
			check.Must(t, err)
			batches = append(batches, LockedBatch{Sale: &LockedSale{Sale: orders.Sale{SKU: sku}}, fence: taken.Fence})
		}
		for _, c := range []struct {
			units []int64 // units to count for A, B, C and D
			fence int64   // added to the fence of C
			want  error
			sold  []int64 // units sold afterwards
		}{
			{[]int64{1, 2, 0, 5}, 0, nil, []int64{1, 2, 0, 5}},
			{[]int64{0, 0, 0, 0}, 0, nil, []int64{1, 2, 0, 5}},
			{[]int64{1, 1, 6, 0}, 0, errRefused, []int64{1, 2, 0, 5}},
			{[]int64{1, 0, 5, 1}, 0, errRefused, []int64{1, 2, 0, 5}},
			{[]int64{1, 1, 1, 0}, -1, errRefused, []int64{1, 2, 0, 5}},
			{[]int64{1, 1, 1, 0}, 0, nil, []int64{2, 3, 1, 5}},
		} {
			batches[2].fence += c.fence
			err := store.Transact(t.Context(), func(tx *gorm.DB) error { return countTogether(tx, batches, c.units) })
			batches[2].fence -= c.fence
			check.Is(t, err, c.want)
			for i, b := range batches {
				if sale, err := store.Sale(t.Context(), b.Sale.SKU); err != nil || sale.Sold != c.sold[i] {
					t.Errorf("shared transaction %+v, units sold of %s: got %d, error %v, want %d", c, b.Sale.SKU, sale.Sold, err, c.sold[i])
				}
			}
		}
	})
}

// Orders that a gate of another epoch has accepted are not committed. Orders of another sale in
// the same transaction are.
func TestOrdersOfAnotherEpoch(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := openStore(t, sql)
		var batches []QueuedBatch
		for i, sku := range []string{"A", "B"} {
			check.Must(t, check.Err(store.PutSale(t.Context(), kit.Sale(sku, 5, 1))))
			kit.Exec(t, store.DB, "UPDATE sales SET epoch = 3 WHERE sku = ?", sku)
			taken, err := store.TakeOver(t.Context(), sku)
			check.Must(t, err)
			q := kit.QueuedOrder(fmt.Sprintf("0000000%d-0000-7000-8000-000000000000", i), "ann", "k", 1)
			q.Epoch = 3 - int64(i)
			batches = append(batches, QueuedBatch{SKU: sku, Fence: taken.Fence, Orders: []inventory.QueuedOrder{q}})
		}
		decisions, err := store.CommitTogether(t.Context(), batches)
		check.Must(t, err)
		if len(decisions[0]) != 1 || decisions[1] != nil || len(kit.RowsOf(t, store.DB)) != 1 {
			t.Errorf("orders of another epoch: got decisions %+v and %d rows, want one decision for A and one row", decisions, len(kit.RowsOf(t, store.DB)))
		}
		check.Is(t, check.Err(store.Commit(t.Context(), "B", batches[1].Fence, batches[1].Orders)), inventory.ErrEpoch)
	})
}
