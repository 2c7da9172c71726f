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
	reason error
	source source
	epoch  int64 // epoch of the gate, if the source is gate or memory
	known  bool  // the request may repeat an order that left the queue: the gate knows the buyer, or it is a payment
}

// A source is the origin of a refusal.
type source int

const (
	database source = iota // a transaction under the sale's row lock, whose outcome is durable
	gate                   // the gate's answer
	memory                 // what this node remembers of the gate
	over                   // the node's copy of the sale: it has ended
)

// Every final refusal of a request with a key leaves the shop through refuse, except for an
// order that MySQL has rejected (accepted returns its reason). A refusal is final
// if no order with that key is durable, and none can become durable by a request that is
// over. The key of a payment is its reference.
//
// A refusal is final if the database has decided, or if the gate has decided and this
// node's copy of the sale vouches for that gate. Otherwise refuse calls look, which asks
// the database for the key and returns the sale. Both must be durable. If the key is
// unknown, the refusal is final only if the gate is still that of the sale's epoch. A newer
// gate, or direct mode, may have accepted the key. In that case the outcome is unknown, and
// refuse returns ErrUnavailable.
//
// If the copy does not vouch for a refusal from memory, refuse returns ErrUnavailable
// without asking MySQL. Otherwise a sold-out sale would send every refusal to MySQL.
func (s *Service) refuse(ctx context.Context, sku string, r refusal, look func(context.Context) (*orders.Sale, error)) error {
	switch {
	case r.source == database, !r.known && r.source != over && s.catalog.Vouches(sku, r.epoch):
		return r.reason
	case r.source == memory:
		return orders.ErrUnavailable
	}
	ctx, cancel := context.WithTimeout(ctx, s.store.Timeout)
	defer cancel()
	sale, err := look(ctx)
	if err != nil || !r.standsFor(sale) {
		return errors.Join(orders.ErrUnavailable, err)
	}
	return r.reason
}

// standsFor reports whether the sale in the database still supports the refusal.
func (r refusal) standsFor(sale *orders.Sale) bool {
	if r.source == over {
		return sale.Mode == orders.ModeOver
	}
	return sale.HasGate() && sale.Epoch == r.epoch
}

// refused answers a placement that was refused. If look finds an order with the same key,
// that order is the answer.
func (s *Service) refused(ctx context.Context, p Placement, r refusal) (Placed, error) {
	if p.Key == "" {
		return Placed{}, r.reason
	}
	var first *orders.Order
	err := s.refuse(ctx, p.SKU, r, func(ctx context.Context) (sale *orders.Sale, err error) {
		first, sale, err = s.store.Lookup(ctx, p.SKU, p.Buyer, p.Key)
		if err == nil && r.source == gate && sale.TakesOnPayment() {
			err = inventory.ErrRebuilding // the order may be on its way past the gate
		}
		return sale, err
	})
	if first != nil {
		return replay(p, first)
	}
	return Placed{}, err
}

// firstOr answers with the durable order with the placement's key. If there is none yet, it
// waits for the order that the gate knows under that key. The order is looked for by the key
// and not by its id, because a gate that had forgotten the key may have accepted a second
// order, which never became a row.
func (s *Service) firstOr(ctx context.Context, p Placement, w *waiter, pending *orders.Order) (Placed, error) {
	within, cancel := context.WithTimeout(ctx, s.store.Timeout)
	defer cancel()
	first, err := s.store.OrderByKey(within, p.SKU, p.Buyer, p.Key)
	if errors.Is(err, orders.ErrNotFound) {
		return s.answer(ctx, p, w, Placed{Order: pending, Replayed: true})
	}
	if err == nil {
		err = s.store.Barrier(within)
	}
	if err != nil {
		return Placed{}, errors.Join(orders.ErrUnavailable, err)
	}
	return replay(p, first)
}

// answer waits until the keeper has decided on the order. If that takes too long, it
// returns the reserved order, which promises nothing yet.
func (s *Service) answer(ctx context.Context, p Placement, w *waiter, pending Placed) (Placed, error) {
	if p.Async {
		return pending, nil
	}
	select {
	case n := <-w.notice:
		if n.Refused != "" {
			return s.refused(ctx, p, refusal{reason: n.Refused.Err(), source: database})
		}
		return accepted(n.Order, pending.Replayed || n.Order.ID != pending.Order.ID)
	case <-time.After(s.cfg.Wait):
		return pending, nil
	case <-ctx.Done():
		return Placed{}, ctx.Err()
	}
}

// replay answers a placement with the first order with its key.
func replay(p Placement, first *orders.Order) (Placed, error) {
	if first.RequestHash != orders.Fingerprint(p.SKU, p.Quantity) {
		return Placed{}, inventory.ErrMismatch
	}
	return accepted(first, true)
}

// accepted returns the order, or the reason if the database has rejected it.
func accepted(o *orders.Order, replayed bool) (Placed, error) {
	if o.Status == orders.Rejected {
		return Placed{}, o.Reason.Err()
	}
	return Placed{Order: o, Replayed: replayed}, nil
}
