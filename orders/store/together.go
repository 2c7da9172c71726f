package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/orders"
)

// QueuedBatch contains orders from the queue of a SKU.
type QueuedBatch struct {
	SKU    string
	Fence  int64 // fence of the keeper that has read the queue
	Orders []inventory.QueuedOrder
}

// CommitTogether is Commit for batches of several SKUs in one transaction, each under its own
// fence. If the row of a SKU is locked, or its fence or epoch has changed, the SKU is left out
// and its decisions are nil. The caller must commit that batch alone. In this way it neither
// delays the other batches nor makes them fail.
func (s *Store) CommitTogether(ctx context.Context, batches []QueuedBatch) ([][]orders.Decision, error) {
	decisions, err := s.decideDurably(ctx, func(tx *gorm.DB) ([][]orders.Decision, error) {
		sales, err := s.lockFree(tx, batches)
		if err != nil {
			return nil, err
		}
		decisions := make([][]orders.Decision, len(batches))
		var free []LockedBatch
		var index []int // free[i] is batches[index[i]]
		for i, b := range batches {
			if sale := sales[b.SKU]; sale != nil && sale.Fence == b.Fence && sameGate(sale, b.Orders) {
				free, index = append(free, LockedBatch{Sale: sale, fence: b.Fence, Orders: b.Orders}), append(index, i)
			}
		}
		inserted, err := s.decideAndWrite(tx, free, gated)
		for i, d := range inserted {
			decisions[index[i]] = d
		}
		return decisions, err
	})
	if err != nil {
		return nil, fmt.Errorf("commit orders of %d SKUs together: %w", len(batches), err)
	}
	return decisions, nil
}

// lockFree is LockSale for several SKUs. It does not wait: it leaves out rows that another
// transaction has locked.
func (s *Store) lockFree(tx *gorm.DB, batches []QueuedBatch) (map[string]*LockedSale, error) {
	skus := make([]string, len(batches))
	for i, b := range batches {
		skus[i] = b.SKU
	}
	rows, err := s.lockRows(tx, false, skus...)
	if err != nil {
		return nil, fmt.Errorf("lock %d sales: %w", len(skus), err)
	}
	sales := make(map[string]*LockedSale, len(rows))
	for i := range rows {
		sales[rows[i].SKU] = &rows[i]
	}
	return sales, nil
}

// countTogether is countSold for several SKUs in one statement. It fails unless all of them
// count. One statement per SKU took an eighth of the database's time for orders of many SKUs.
func countTogether(tx *gorm.DB, batches []LockedBatch, sold []int64) error {
	var skus []string
	var units, fences []any
	for i, b := range batches {
		if sold[i] > 0 {
			skus = append(skus, b.Sale.SKU)
			units = append(units, b.Sale.SKU, sold[i])
			fences = append(fences, b.Sale.SKU, b.fence)
		}
	}
	if len(skus) == 0 {
		return nil
	}
	bySKU := "CASE sku" + strings.Repeat(" WHEN ? THEN ?", len(skus)) + " END"
	r := tx.Exec("UPDATE sales SET sold = sold + "+bySKU+" WHERE sku IN ? AND fence = "+bySKU+" AND sold + "+bySKU+" <= total",
		slices.Concat(units, []any{skus}, fences, units)...)
	if r.Error == nil && r.RowsAffected != int64(len(skus)) {
		r.Error = errRefused
	}
	return wrap(r.Error, "count units of %d SKUs as sold", len(skus))
}
