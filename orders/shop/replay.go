package shop

import (
	"context"
	"errors"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
)

// A refusal holds the reason why an order or a payment is refused, and its source.
type refusal struct {
	reason      error
	source      source
	epoch       int64 // epoch of the gate, if the source is gate or memory
	mayBeReplay bool  // the request may repeat a durable order: the gate knows the buyer, or it is a payment
}

// A source is the origin of a refusal.
type source int

const (
	database source = iota // a transaction under the sale's row lock, whose outcome is durable
	gate                   // the gate's answer
	memory                 // this node's memory of the gate's answer
	over                   // this node's copy of the sale, in which the sale has ended
)

// finalOrUnavailable returns the reason of a refusal if the refusal is final, and
// ErrUnavailable if it may not be. A refusal is final if no order with the request's key is
// durable, and if no request sent before can still make one durable. The key of a payment is
// its reference.
//
// Every final refusal of a request with a key passes through finalOrUnavailable, except two
// that rest on a durable row: ErrMismatch (see replay) and the reason of a rejected order (see
// outcomeOf). The limiter's errors are not final.
//
// finalOrUnavailable accepts two proofs without a query: the database has decided; or the gate has
// decided, does not know the buyer, and this node's copy of the sale vouches for the gate.
// Otherwise finalOrUnavailable calls lookup, which reads the sale and then the order with the key
// from the database. If there is an order, the caller answers with the order. If there is none,
// the refusal is final only if the sale still has the gate that refused, because a newer gate, or
// direct mode, may have accepted the key.
//
// If the copy does not vouch for a refusal from memory, finalOrUnavailable returns ErrUnavailable
// without asking MySQL. Otherwise a sold-out sale would send every refusal to MySQL.
func (s *Service) finalOrUnavailable(ctx context.Context, sku string, r refusal, lookup func(context.Context) (*orders.Sale, error)) error {
	switch {
	case r.source == database, !r.mayBeReplay && r.source != over && s.catalog.Vouches(sku, r.epoch):
		return r.reason
	case r.source == memory, r.source == gate && s.catalog.DoubtsGates():
		return orders.ErrUnavailable
	}
	ctx, cancel := context.WithTimeout(ctx, s.store.Timeout)
	defer cancel()
	sale, err := lookup(ctx)
	if err != nil || !r.standsFor(sale) {
		return errors.Join(orders.ErrUnavailable, err)
	}
	return r.reason
}

// standsFor reports whether the sale, as read from the database, confirms the refusal.
func (r refusal) standsFor(sale *orders.Sale) bool {
	if r.source == over {
		return sale.Mode == orders.ModeOver
	}
	return sale.HasGate() && sale.Epoch == r.epoch
}

// answerRefusal returns the answer for a placement that was refused. If the database has an order
// with the same key, that order is the answer.
func (s *Service) answerRefusal(ctx context.Context, p Placement, r refusal) (Placed, error) {
	if p.Key == "" && !s.catalog.DoubtsGates() {
		return Placed{}, r.reason
	}
	var first *orders.Order
	err := s.finalOrUnavailable(ctx, p.SKU, r, func(ctx context.Context) (sale *orders.Sale, err error) {
		first, sale, err = s.store.Lookup(ctx, p.SKU, p.Buyer, p.Key)
		if err == nil && r.source == gate && sale.TakesOnPayment() {
			err = inventory.ErrRebuilding // an order with the key may be in a shared commit, past the gate
		}
		return sale, err
	})
	if first != nil {
		return replay(p, first)
	}
	return Placed{}, err
}

// durableOrAwait looks for a row with the placement's key. If there is none yet, it waits for the
// order that the gate has for the key. It looks for the key and not for the order's id, because a
// gate that has lost the key of a durable order has queued a second order under the key. The
// keeper answers the second order with the first, so the second one never becomes a row.
func (s *Service) durableOrAwait(ctx context.Context, p Placement, w *waiter, pending *orders.Order) (Placed, error) {
	within, cancel := context.WithTimeout(ctx, s.store.Timeout)
	defer cancel()
	first, err := s.store.OrderByKey(within, p.SKU, p.Buyer, p.Key)
	if errors.Is(err, orders.ErrNotFound) {
		return s.awaitKeeper(ctx, p, w, Placed{Order: pending, Replayed: true})
	}
	if err != nil {
		return Placed{}, errors.Join(orders.ErrUnavailable, err)
	}
	return replay(p, first)
}

// awaitKeeper waits until the keeper has decided on the order. After Config.Wait it returns the
// reserved order, which promises nothing yet.
func (s *Service) awaitKeeper(ctx context.Context, p Placement, w *waiter, pending Placed) (Placed, error) {
	if p.Async {
		return pending, nil
	}
	select {
	case n := <-w.notice:
		if n.Refused != "" {
			return s.answerRefusal(ctx, p, refusal{reason: n.Refused.Err(), source: database})
		}
		return outcomeOf(n.Order, pending.Replayed || n.Order.ID != pending.Order.ID)
	case <-time.After(s.cfg.Wait):
		return pending, nil
	case <-ctx.Done():
		return Placed{}, ctx.Err()
	}
}

// replay returns the first order that was made with the placement's key. If that order was
// for other units, it returns inventory.ErrMismatch.
func replay(p Placement, first *orders.Order) (Placed, error) {
	if first.RequestHash != orders.Fingerprint(p.SKU, p.Quantity) {
		return Placed{}, inventory.ErrMismatch
	}
	return outcomeOf(first, true)
}

// outcomeOf returns the order, or the reason if the database has rejected it.
func outcomeOf(o *orders.Order, replayed bool) (Placed, error) {
	if o.Status == orders.Rejected {
		return Placed{}, o.Reason.Err()
	}
	return Placed{Order: o, Replayed: replayed}, nil
}
