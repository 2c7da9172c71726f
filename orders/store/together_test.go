package store

import (
	"testing"

	"gorm.io/gorm"

	"flashsale/loadtest/servers/servertest"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// One statement counts what several SKUs have sold: all of it, or nothing where the
// fence or the total of one of them refuses.
func TestCountTogether(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := openStore(t, sql)
		var batches []SaleBatch
		for _, sku := range []string{"A", "B", "C", "D"} {
			kit.Must(t, kit.Err(store.PutSale(t.Context(), kit.Sale(sku, 5, 1))))
			taken, err := store.TakeOver(t.Context(), sku)
			kit.Must(t, err)
			batches = append(batches, SaleBatch{Sale: &LockedSale{Sale: orders.Sale{SKU: sku}}, fence: taken.Fence})
		}
		for _, c := range []struct {
			sold  []int64
			fence int64 // more than C has
			want  error
			are   []int64
		}{
			{[]int64{1, 2, 0, 5}, 0, nil, []int64{1, 2, 0, 5}},
			{[]int64{0, 0, 0, 0}, 0, nil, []int64{1, 2, 0, 5}},
			{[]int64{1, 1, 6, 0}, 0, errRefused, []int64{1, 2, 0, 5}},
			{[]int64{1, 0, 5, 1}, 0, errRefused, []int64{1, 2, 0, 5}},
			{[]int64{1, 1, 1, 0}, -1, errRefused, []int64{1, 2, 0, 5}},
			{[]int64{1, 1, 1, 0}, 0, nil, []int64{2, 3, 1, 5}},
		} {
			batches[2].fence += c.fence
			err := store.Transact(t.Context(), func(tx *gorm.DB) error { return countTogether(tx, batches, c.sold) })
			batches[2].fence -= c.fence
			kit.Is(t, err, c.want)
			for i, b := range batches {
				if sale, err := store.Sale(t.Context(), b.Sale.SKU); err != nil || sale.Sold != c.are[i] {
					t.Errorf("%+v: %s has sold %d, %v", c, b.Sale.SKU, sale.Sold, err)
				}
			}
		}
	})
}
