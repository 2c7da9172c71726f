package store

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"flashsale/inventory/coalesce"
	"flashsale/orders"
)

// An ending is a step of a transaction that has locked the sale's row. It returns the number
// of orders that it has closed.
type ending func(tx *gorm.DB, sale *LockedSale) (int64, error)

// underRow runs f in a transaction that has locked the row of sku. Concurrent callers of one
// sale share a transaction, so a row that stays locked occupies only one connection.
// Error: ErrUnavailable after Config.Timeout.
func (s *Store) underRow(ctx context.Context, sku string, f ending) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	ended, err := s.endings.Do(ctx, sku, f)
	// The shared transaction has the same timeout, and may end just before ctx does.
	if err != nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)) {
		err = errors.Join(orders.ErrUnavailable, err)
	}
	return ended, err
}

// maxEndings is the maximum number of concurrent transactions of underRow.
const maxEndings = 8

// newEndings returns the group in which callers of underRow share a transaction. It runs one
// transaction per sale at a time.
func (s *Store) newEndings() *coalesce.Group[ending, int64] {
	return coalesce.New(coalesce.Config[ending, int64]{
		MaxBatch: 20, MaxCalls: maxEndings, Timeout: s.Timeout,
		Call: func(ctx context.Context, sku string, batch []*coalesce.Caller[ending, int64]) {
			ended, err := s.endTogether(ctx, sku, batch)
			for i, c := range batch {
				switch {
				case err == nil:
					c.Answer = ended[i]
				case len(batch) == 1 || ctx.Err() != nil:
					c.Err = err
				default: // another caller's ending may have caused the error
					var alone []int64
					if alone, c.Err = s.endTogether(ctx, sku, batch[i:i+1]); c.Err == nil {
						c.Answer = alone[0]
					}
				}
			}
		},
	})
}

// endTogether runs the endings of several callers in one transaction.
func (s *Store) endTogether(ctx context.Context, sku string, batch []*coalesce.Caller[ending, int64]) ([]int64, error) {
	endings := make([]ending, len(batch)) // they may still be running when the call has ended
	for i, c := range batch {
		endings[i] = c.Q
	}
	return transact(ctx, s, func(tx *gorm.DB) ([]int64, error) {
		sale, err := s.LockSale(tx, sku)
		ended := make([]int64, len(endings))
		for i := 0; i < len(endings) && err == nil; i++ {
			ended[i], err = endings[i](tx, sale)
		}
		return ended, err
	})
}
