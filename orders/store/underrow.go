package store

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"flashsale/inventory/coalesce"
	"flashsale/orders"
)

// A saleStep is a step of a transaction that has locked the sale's row. It returns the number
// of orders that it has closed.
type saleStep func(tx *gorm.DB, sale *LockedSale) (int64, error)

// withLockedSale runs f in a transaction that has locked the row of sku. Concurrent callers of one
// sale share a transaction, so a row that stays locked occupies only one connection.
// Error: ErrUnavailable after Config.Timeout.
func (s *Store) withLockedSale(ctx context.Context, sku string, f saleStep) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	closed, err := s.saleSteps.Do(ctx, sku, f)
	// The shared transaction has the same timeout, and may end just before ctx does.
	if err != nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)) {
		err = errors.Join(orders.ErrUnavailable, err)
	}
	return closed, err
}

// maxRowTransactions is the maximum number of concurrent transactions of withLockedSale.
const maxRowTransactions = 8

// newSaleSteps returns the group in which callers of withLockedSale share a transaction. It runs one
// transaction per sale at a time.
func (s *Store) newSaleSteps() *coalesce.Group[saleStep, int64] {
	return coalesce.New(coalesce.Config[saleStep, int64]{
		MaxBatch: 20, MaxCalls: maxRowTransactions, Timeout: s.Timeout,
		Call: func(ctx context.Context, sku string, batch []*coalesce.Caller[saleStep, int64]) {
			closed, err := s.stepTogether(ctx, sku, batch)
			for i, c := range batch {
				switch {
				case err == nil:
					c.Answer = closed[i]
				case len(batch) == 1 || ctx.Err() != nil:
					c.Err = err
				default: // another caller's step may have caused the error
					var alone []int64
					if alone, c.Err = s.stepTogether(ctx, sku, batch[i:i+1]); c.Err == nil {
						c.Answer = alone[0]
					}
				}
			}
		},
	})
}

// stepTogether runs the steps of several callers in one transaction.
func (s *Store) stepTogether(ctx context.Context, sku string, batch []*coalesce.Caller[saleStep, int64]) ([]int64, error) {
	steps := make([]saleStep, len(batch)) // they may still be running when the call has ended
	for i, c := range batch {
		steps[i] = c.Q
	}
	return transact(ctx, s, func(tx *gorm.DB) ([]int64, error) {
		sale, err := s.lockKnownSale(tx, sku)
		closed := make([]int64, len(steps))
		for i := 0; i < len(steps) && err == nil; i++ {
			closed[i], err = steps[i](tx, sale)
		}
		return closed, err
	})
}
