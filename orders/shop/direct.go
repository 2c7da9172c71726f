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

// maxOnPayment is the maximum number of buyers of one node who wait at once for orders that
// take no units. The database inserts about ten thousand of these orders per second.
const maxOnPayment = 4096

// A sharedCommit commits orders without a gate. Orders that arrive while a transaction of
// their SKU is in progress wait, and share the next transaction.
type sharedCommit struct {
	*coalesce.Group[inventory.QueuedOrder, orders.Decision]
	commit  func(context.Context, string, []inventory.QueuedOrder) ([]orders.Decision, error)
	refused *atomic.Int64 // number of orders refused because too many buyers waited
}

// newSharedCommit returns a sharedCommit. buyers, batch and transactions are the maximum
// numbers of waiting buyers, of orders in one transaction, and of concurrent transactions.
func newSharedCommit(timeout time.Duration, buyers, batch, transactions int, commit func(context.Context, string, []inventory.QueuedOrder) ([]orders.Decision, error)) *sharedCommit {
	c := &sharedCommit{commit: commit, refused: new(atomic.Int64)}
	c.Group = coalesce.New(coalesce.Config[inventory.QueuedOrder, orders.Decision]{
		MaxCallers: buyers, MaxBatch: batch, MaxCalls: transactions, Timeout: timeout, Call: c.call,
	})
	return c
}

// call commits a batch in one transaction. If the database refuses the data of an order, each
// order is committed alone. Otherwise one bad order would make the whole batch fail.
func (c *sharedCommit) call(ctx context.Context, sku string, batch []*coalesce.Caller[inventory.QueuedOrder, orders.Decision]) {
	queued := make([]inventory.QueuedOrder, len(batch))
	for i, b := range batch {
		queued[i] = b.Q
	}
	decisions, err := c.commit(ctx, sku, queued)
	for i, b := range batch {
		switch {
		case err == nil:
			b.Answer = decisions[i]
		case store.IsBadData(err) && len(batch) > 1:
			c.call(ctx, sku, batch[i:i+1])
		default:
			b.Err = err
		}
	}
}

// place commits one order. If ctx ends before the commit, the order may still become durable,
// and a retry with the same key finds it. Errors: inventory.ErrBusy, the errors of commit.
func (c *sharedCommit) place(ctx context.Context, sku string, q inventory.QueuedOrder) (orders.Decision, error) {
	d, err := c.Do(ctx, sku, q)
	if errors.Is(err, coalesce.ErrFull) {
		c.refused.Add(1)
		err = inventory.ErrBusy
	}
	return d, err
}

// placeWithoutGate places an order by a shared commit, without a gate. If the sale has changed since
// this node read it, the commit does nothing, and the order is routed once more.
func (s *Service) placeWithoutGate(ctx context.Context, c *sharedCommit, p Placement) (Placed, error) {
	within, cancel := context.WithTimeout(ctx, s.cfg.Wait+s.store.Timeout)
	defer cancel()
	d, err := c.place(within, p.SKU, inventory.QueuedOrder{
		OrderID: orders.NewOrderID(p.SKU), Buyer: p.Buyer, Quantity: p.Quantity, Key: p.Key, Fingerprint: orders.Fingerprint(p.SKU, p.Quantity),
	})
	changed := errors.Is(err, orders.ErrTakesUnits) || errors.Is(err, orders.ErrNotDirect)
	switch {
	case changed && !p.rerouted:
		return s.reroute(ctx, p)
	case changed:
		return Placed{}, inventory.ErrRebuilding // the sale has changed twice during this call
	case errors.Is(err, inventory.ErrBusy):
		return Placed{}, err
	case err != nil:
		return Placed{}, errors.Join(orders.ErrUnavailable, err)
	case d.Refused != "":
		return s.answerRefusal(ctx, p, refusal{reason: d.Refused.Err(), source: database})
	}
	return outcomeOf(d.Order, d.Action != orders.Insert)
}

// reroute refreshes this node's copy of the sales, and routes the order once more.
func (s *Service) reroute(ctx context.Context, p Placement) (Placed, error) {
	p.rerouted = true
	if err := s.catalog.Refresh(ctx); err != nil {
		return Placed{}, errors.Join(orders.ErrUnavailable, err)
	}
	sale, err := s.catalog.Sale(ctx, p.SKU)
	if err != nil {
		return Placed{}, err
	}
	return s.route(ctx, p, sale)
}
