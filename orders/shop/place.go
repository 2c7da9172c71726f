package shop

import (
	"context"

	"flashsale/inventory"
	"flashsale/orders"
)

// A Placement is a buyer's request for one order.
type Placement struct {
	Buyer    string
	IP       string // client address, which only the limiter uses
	SKU      string
	Quantity int64
	Key      string // idempotency key, "" for none
	Async    bool   // return the reserved order at once, without waiting until it is durable

	rerouted bool // the node's copy of the sale was too old at the first attempt
}

// validate returns an *orders.InvalidError that names every invalid field.
func (p *Placement) validate(limit int64) error {
	var f orders.Fields
	f.Check(orders.IsSKU(p.SKU), "sku", "must be 1 to 64 characters of A-Z a-z 0-9 . _ -")
	f.Check(orders.IsBuyer(p.Buyer), "buyer", "must be 1 to 64 characters of A-Z a-z 0-9 . _ : -")
	f.Check(p.Quantity >= 1 && p.Quantity <= limit, "quantity", "must be 1 to %d units", limit)
	f.Check(p.Key == "" || orders.VisibleASCII(p.Key, 128), "Idempotency-Key", "must be 1 to 128 visible ASCII characters")
	return f.Err()
}

// Placed is the result of Place. If Order.Status is Reserved, the order may not be durable
// yet.
type Placed struct {
	Order    *orders.Order
	Replayed bool // an earlier request with the same key made the order
}

// Place sells one order: it checks this node's memory and the limiter (admit), asks the gate
// (reserve), and waits until the keeper has made the order durable (awaitKeeper). Each step has its
// own timeout, so Place always returns. A single deadline for the whole call would cost a few
// microseconds per order.
//
// Errors: *orders.InvalidError, orders.ErrNotFound, the errors of the limiter and of
// inventory.Gate.Reserve.
// After orders.ErrUnavailable the outcome is unknown, and a retry with the same key finds it.
func (s *Service) Place(ctx context.Context, p Placement) (Placed, error) {
	if err := p.validate(s.cfg.MaxQuantity); err != nil {
		return Placed{}, err
	}
	sale, err := s.admit(ctx, p)
	if err != nil {
		return Placed{}, err
	}
	return s.route(ctx, p, sale)
}

// route sells an order according to the mode of the sale in this node's copy.
func (s *Service) route(ctx context.Context, p Placement, sale *orders.Sale) (Placed, error) {
	switch {
	case sale.Mode == orders.ModeOver:
		return s.answerRefusal(ctx, p, refusal{reason: inventory.ErrClosed, source: over})
	case sale.TakesOnPayment():
		return s.placeWithoutGate(ctx, s.onPayment, p)
	case sale.Mode == orders.ModeDirect:
		return s.placeWithoutGate(ctx, s.direct, p)
	}
	return s.placeThroughGate(ctx, p, sale)
}
