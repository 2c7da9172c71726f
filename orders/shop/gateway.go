package shop

import (
	"context"
	"errors"

	"flashsale/inventory"
	"flashsale/orders"
)

// admit checks this node's sold-out memory and the limiter, and returns the sale from this
// node's copy. If either check fails, the order is refused before the gate is asked.
func (s *Service) admit(ctx context.Context, p Placement) (*orders.Sale, error) {
	if epoch, soldOut := s.remembersSoldOut(p); soldOut {
		_, err := s.answerRefusal(ctx, p, refusal{reason: inventory.ErrSoldOut, source: memory, epoch: epoch})
		return nil, err
	}
	if err := s.cfg.Limiter.Allow(ctx, p.Buyer, p.IP, p.SKU); err != nil {
		return nil, err
	}
	return s.catalog.Sale(ctx, p.SKU)
}

// remembersSoldOut reports whether this node remembers that the sale has sold out. epoch is the
// epoch of the gate that was sold out. soldOut is false in direct mode. It is also false for a
// request with a key if orders take no units, because the gate does not know orders without
// units.
func (s *Service) remembersSoldOut(p Placement) (epoch int64, soldOut bool) {
	sale := s.catalog.Cached(p.SKU)
	if sale == nil || p.Key != "" && sale.TakesOnPayment() || sale.Mode == orders.ModeDirect {
		return 0, false
	}
	epoch, soldOut = s.gate.KnownSoldOut(p.SKU, p.Buyer)
	// There are three cases. A fresh copy vouches for the gate: refuse from memory. A fresh copy
	// does not vouch: ask the gate, because a newer gate may have units. The copy is old: refuse
	// from memory, which finalOrUnavailable turns into ErrUnavailable for a request with a key.
	return epoch, soldOut && (s.catalog.Vouches(p.SKU, epoch) || !s.catalog.IsFresh())
}

// placeThroughGate places an order through the gate, which takes the units and queues the order. Then
// awaitKeeper waits for the keeper.
func (s *Service) placeThroughGate(ctx context.Context, p Placement, sale *orders.Sale) (Placed, error) {
	request := inventory.Request{
		OrderID: orders.NewOrderID(p.SKU), SKU: p.SKU, Buyer: p.Buyer, Quantity: p.Quantity,
		Key: p.Key, Fingerprint: orders.Fingerprint(p.SKU, p.Quantity), Node: s.store.Node, Trace: s.cfg.Trace(ctx),
	}
	if s.controller.ForeignRedis() {
		return Placed{}, orders.ErrUnavailable
	}
	waiter := s.waiters.wait(request.OrderID)
	defer func() { s.waiters.leave(waiter) }()
	reserved, err := s.gate.Reserve(ctx, request)
	if err != nil {
		return s.answerRefusalOfGate(ctx, p, reserved.Epoch, err)
	}
	if reserved.Epoch < sale.Epoch { // an old gate has accepted the order, so no keeper commits it
		return Placed{}, inventory.ErrRebuilding
	}
	unconfirmed := &orders.Order{
		ID: reserved.OrderID, SKU: p.SKU, Buyer: p.Buyer, Quantity: p.Quantity,
		Amount: sale.Price * p.Quantity, Currency: sale.Currency, Status: orders.Reserved, CreatedAt: reserved.AcceptedAt,
	}
	if reserved.Replayed { // another request made the order: wait for that order
		s.waiters.leave(waiter)
		waiter = s.waiters.wait(reserved.OrderID)
		return s.durableOrAwait(ctx, p, waiter, unconfirmed)
	}
	return s.awaitKeeper(ctx, p, waiter, Placed{Order: unconfirmed})
}

// answerRefusalOfGate returns the answer for an order that the gate has not accepted. If the error
// is not a final refusal, the buyer may repeat the request.
func (s *Service) answerRefusalOfGate(ctx context.Context, p Placement, epoch int64, err error) (Placed, error) {
	r, ok := errors.AsType[*inventory.Refusal](err)
	switch {
	case !ok:
		return Placed{}, errors.Join(orders.ErrUnavailable, err)
	case errors.Is(err, inventory.ErrStale):
		s.controller.ReplaceStaleGate(ctx, p.SKU, epoch)
	case r.Final:
		return s.answerRefusal(ctx, p, refusal{reason: err, source: gate, epoch: epoch, mayBeReplay: r.KnowsBuyer})
	}
	return Placed{}, err
}
