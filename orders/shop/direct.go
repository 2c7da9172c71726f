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

// maxOnPayment bounds the buyers of one node who wait at once for orders that take no units.
// They wait for the database alone, which inserts some ten thousand of these orders a second.
const maxOnPayment = 4096

// A sharedCommit commits orders without a gate. The buyers of one moment share a transaction,
// as they share the gate's script: a buyer who comes while a transaction of the SKU is in
// progress waits for the next one.
type sharedCommit struct {
	*coalesce.Group[inventory.Queued, orders.Decision]
	commit  func(context.Context, string, []inventory.Queued) ([]orders.Decision, error)
	refused *atomic.Int64 // counts the buyers that there was no room for
}

// newSharedCommit returns a sharedCommit for at most so many buyers at once, of whom batch may
// share a transaction, with at most so many concurrent transactions.
func newSharedCommit(timeout time.Duration, buyers, batch, transactions int, commit func(context.Context, string, []inventory.Queued) ([]orders.Decision, error)) *sharedCommit {
	c := &sharedCommit{commit: commit, refused: new(atomic.Int64)}
	c.Group = coalesce.New(coalesce.Config[inventory.Queued, orders.Decision]{
		Callers: buyers, Batch: batch, Calls: transactions, Timeout: timeout, Call: c.call,
	})
	return c
}

// call commits a batch in one transaction. If the database refuses an order of it, each order
// is committed alone, so that one bad order does not make the others fail.
func (c *sharedCommit) call(ctx context.Context, sku string, batch []*coalesce.Caller[inventory.Queued, orders.Decision]) {
	queued := make([]inventory.Queued, len(batch))
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

// place commits one order. A buyer who gives up finds the order under its key, if it became
// durable. Errors: those of commit; inventory.ErrBusy.
func (c *sharedCommit) place(ctx context.Context, sku string, q inventory.Queued) (orders.Decision, error) {
	d, err := c.Do(ctx, sku, q)
	if errors.Is(err, coalesce.ErrFull) {
		c.refused.Add(1)
		err = inventory.ErrBusy
	}
	return d, err
}

// placeDirect sells an order by a shared commit, without a gate. If the sale has changed since
// this node read it, nothing has happened to the order, and it is routed once more.
func (s *Service) placeDirect(ctx context.Context, c *sharedCommit, p Placement) (Placed, error) {
	within, cancel := context.WithTimeout(ctx, s.cfg.Wait+s.store.Timeout)
	defer cancel()
	d, err := c.place(within, p.SKU, inventory.Queued{
		OrderID: orders.NewOrderID(p.SKU), Buyer: p.Buyer, Quantity: p.Quantity, Key: p.Key, Fingerprint: orders.Fingerprint(p.SKU, p.Quantity),
	})
	changed := errors.Is(err, orders.ErrTakesUnits) || errors.Is(err, orders.ErrNotDirect)
	switch {
	case changed && !p.rerouted:
		return s.reroute(ctx, p)
	case changed:
		return Placed{}, inventory.ErrRebuilding // the sale changes faster than it can be read
	case errors.Is(err, inventory.ErrBusy):
		return Placed{}, err
	case err != nil:
		return Placed{}, errors.Join(orders.ErrUnavailable, err)
	case d.Refused != "":
		return s.refused(ctx, p, refusal{reason: d.Refused.Err(), source: database})
	}
	return accepted(d.Order, d.Action != orders.Insert)
}

// reroute reads the sales again and places the order according to the new copy.
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
