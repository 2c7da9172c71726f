package shop

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"flashsale/inventory"
	"flashsale/inventory/coalesce"
	"flashsale/orders"
	"flashsale/orders/store"
)

// A line is where buyers wait for a transaction that no gate stands before. The
// buyers of one moment share it, as they share the gate's script: whoever comes
// while one of the SKU is under way waits for the next.
type line struct {
	*coalesce.Group[inventory.Queued, orders.Decision]
	full *atomic.Int64 // counts who found it full, where not nil
}

// newLine returns a line for at most so many buyers, of whom batch may share a
// transaction; that many transactions may be under way at once.
func newLine(timeout time.Duration, buyers, batch, transactions int, commit func(context.Context, string, []inventory.Queued) ([]orders.Decision, error)) *line {
	return &line{Group: coalesce.New(coalesce.Config[inventory.Queued, orders.Decision]{
		Callers: buyers, Batch: batch, Calls: transactions, Timeout: timeout,
		Call: func(ctx context.Context, sku string, batch []*coalesce.Caller[inventory.Queued, orders.Decision]) {
			carryLine(ctx, sku, batch, commit)
		},
	})}
}

// place carries one order into the database. Errors: those of commit;
// inventory.ErrBusy. Whoever gives up finds the order under its key, if it came
// about.
func (l *line) place(ctx context.Context, sku string, q inventory.Queued) (orders.Decision, error) {
	v, err := l.Do(ctx, sku, q)
	if errors.Is(err, coalesce.ErrFull) {
		if l.full != nil {
			l.full.Add(1)
		}
		err = inventory.ErrBusy
	}
	return v, err
}

// carryLine makes one transaction of a batch, or one of each order where the
// database refuses what is in it: one bad order must not take the others along.
func carryLine(ctx context.Context, sku string, batch []*coalesce.Caller[inventory.Queued, orders.Decision], commit func(context.Context, string, []inventory.Queued) ([]orders.Decision, error)) {
	list := make([]inventory.Queued, len(batch))
	for i, c := range batch {
		list[i] = c.Q
	}
	decisions, err := commit(ctx, sku, list)
	for i, c := range batch {
		switch {
		case err == nil:
			c.Answer = decisions[i]
		case store.IsBadData(err) && len(batch) > 1:
			carryLine(ctx, sku, batch[i:i+1], commit)
		default:
			c.Err = err
		}
	}
}
