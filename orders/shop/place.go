package shop

import (
	"context"
	"errors"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
)

// A Placement is a buyer's request for one order.
type Placement struct {
	Buyer    string
	IP       string // for the limiter
	SKU      string
	Quantity int64
	Key      string // idempotency key, "" for none
	Async    bool   // do not wait for the order to be durable
}

// validate names every field that is wrong.
func (p *Placement) validate(most int64) error {
	var f orders.Fields
	f.Check(orders.IsSKU(p.SKU), "sku", "must be 1 to 64 characters of A-Z a-z 0-9 . _ -")
	f.Check(orders.IsBuyer(p.Buyer), "buyer", "must be 1 to 64 characters of A-Z a-z 0-9 . _ : -")
	f.Check(p.Quantity >= 1 && p.Quantity <= most, "quantity", "must be 1 to %d units", most)
	f.Check(p.Key == "" || orders.VisibleASCII(p.Key, 128), "Idempotency-Key", "must be 1 to 128 visible ASCII characters")
	return f.Err()
}

// fingerprint returns the fingerprint of SKU and quantity.
func (p *Placement) fingerprint() string { return orders.Fingerprint(p.SKU, p.Quantity) }

// Placed is the answer to a placement. Order.Status is Reserved while it is
// not known to be durable.
type Placed struct {
	Order    *orders.Order
	Replayed bool // an earlier request under this key made the order
}

// Place sells one order: it checks this node's memory and the limiter, asks the gate, and
// waits until the keeper has made the order durable. Each step has its own timeout, so
// Place always returns. A single deadline for the whole call would cost a few microseconds
// per order.
//
// Errors: *InvalidError, ErrNotFound, the errors of the limiter and of inventory.Reserve.
// After ErrUnavailable the outcome is unknown, and a retry with the same key finds it.
func (s *Service) Place(ctx context.Context, p Placement) (Placed, error) {
	if err := p.validate(s.cfg.MaxQuantity); err != nil {
		return Placed{}, err
	}
	if epoch, soldOut := s.remembersSoldOut(p); soldOut {
		return s.refuseOrder(ctx, p, refusal{reason: inventory.ErrSoldOut, source: memory, epoch: epoch})
	}
	if err := s.allow(ctx, p.Buyer, p.IP, p.SKU); err != nil {
		return Placed{}, err
	}
	sale, err := s.catalog.Sale(ctx, p.SKU)
	if err != nil {
		return Placed{}, err
	}
	placed, err := s.place(ctx, p, sale)
	if !isOld(err) {
		return placed, err
	}
	if err := s.catalog.Refresh(ctx); err != nil {
		return Placed{}, errors.Join(orders.ErrUnavailable, err)
	}
	if sale, err = s.catalog.Sale(ctx, p.SKU); err != nil {
		return Placed{}, err
	}
	if placed, err = s.place(ctx, p, sale); isOld(err) {
		err = inventory.ErrRebuilding // the sale changes faster than it can be read
	}
	return placed, err
}

// place sells an order according to the mode of the sale in this node's copy.
func (s *Service) place(ctx context.Context, p Placement, sale *orders.Sale) (Placed, error) {
	switch {
	case sale.Mode == orders.ModeOver:
		return s.refuseOrder(ctx, p, refusal{reason: inventory.ErrClosed, source: over})
	case sale.TakesOnPayment():
		return s.placeInLine(ctx, s.onPayment, p)
	case sale.Mode == orders.ModeDirect:
		return s.placeInLine(ctx, s.direct, p)
	}
	return s.placeAtGate(ctx, p, sale)
}

// isOld reports whether err means that the sale has changed since this node read it, and
// that nothing has happened to the order.
func isOld(err error) bool {
	return errors.Is(err, orders.ErrTakesUnits) || errors.Is(err, orders.ErrNotDirect)
}

// placeAtGate sells an order through gate, queue and keeper.
func (s *Service) placeAtGate(ctx context.Context, p Placement, sale *orders.Sale) (Placed, error) {
	request := inventory.Request{
		OrderID: orders.NewOrderID(p.SKU), SKU: p.SKU, Buyer: p.Buyer, Quantity: p.Quantity,
		Key: p.Key, Fingerprint: p.fingerprint(), Node: s.store.Node, Trace: s.cfg.Trace(ctx),
	}
	waiter := s.waiters.wait(request.OrderID)
	defer func() { s.waiters.leave(waiter) }()
	reserved, err := s.gate.Reserve(ctx, request)
	if err != nil {
		return s.refusedAtGate(ctx, p, reserved.Epoch, err)
	}
	if reserved.Epoch < sale.Epoch { // orders of an old gate are never committed
		return Placed{}, inventory.ErrRebuilding
	}
	pending := &orders.Order{
		ID: reserved.OrderID, SKU: p.SKU, Buyer: p.Buyer, Quantity: p.Quantity,
		Amount: sale.Price * p.Quantity, Currency: sale.Currency, Status: orders.Reserved, CreatedAt: reserved.At,
	}
	if reserved.Replayed {
		// Another request made the order: wait for that order. It may have become
		// durable before this wait began.
		s.waiters.leave(waiter)
		waiter = s.waiters.wait(reserved.OrderID)
		if first, err := s.first(ctx, p); !errors.Is(err, orders.ErrNotFound) {
			return first, err
		}
	}
	if p.Async {
		return Placed{Order: pending, Replayed: reserved.Replayed}, nil
	}
	return s.await(ctx, p, waiter, pending, reserved.Replayed)
}

// refusedAtGate answers an order that the gate has not accepted. If the reason is the
// state of the gate, the buyer may repeat the request.
func (s *Service) refusedAtGate(ctx context.Context, p Placement, epoch int64, err error) (Placed, error) {
	refused, is := errors.AsType[*inventory.Refusal](err)
	switch {
	case !is:
		return Placed{}, errors.Join(orders.ErrUnavailable, err)
	case errors.Is(err, inventory.ErrStale):
		s.keepers.Stale(ctx, p.SKU, epoch)
	case refused.Final:
		return s.refuseOrder(ctx, p, refusal{reason: err, source: gate, epoch: epoch, known: refused.Known})
	}
	return Placed{}, err
}

// remembersSoldOut reports whether this node remembers that the sale has sold out, and the
// epoch of the gate from which it knows. Orders without units and orders of direct mode
// are unknown to that gate. Therefore it returns false in direct mode, and for a request
// with a key if orders take no units.
func (s *Service) remembersSoldOut(p Placement) (epoch int64, soldOut bool) {
	sale := s.catalog.Known(p.SKU)
	if sale == nil || p.Key != "" && sale.TakesOnPayment() || sale.Mode == orders.ModeDirect {
		return 0, false
	}
	epoch, soldOut = s.gate.KnownSoldOut(p.SKU, p.Buyer)
	// If a fresh copy shows a change, ask the gate: the new gate may have units.
	return epoch, soldOut && (s.catalog.Vouches(p.SKU, epoch) || !s.catalog.IsFresh())
}

// await waits until the keeper has decided on the order. If that takes too long, it
// returns the reserved order, which promises nothing yet.
func (s *Service) await(ctx context.Context, p Placement, w *waiter, pending *orders.Order, replayed bool) (Placed, error) {
	select {
	case t := <-w.notice:
		if t.Refused != "" {
			return s.refuseOrder(ctx, p, refusal{reason: t.Refused.Err(), source: database})
		}
		return answer(t.Order, replayed || t.Order.ID != pending.ID)
	case <-time.After(s.cfg.Wait):
		return Placed{Order: pending, Replayed: replayed}, nil
	case <-ctx.Done():
		return Placed{}, ctx.Err()
	}
}
