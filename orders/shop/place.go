package shop

import (
	"context"
	"errors"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/store"
)

// A Placement is what a buyer asks for.
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

// fingerprint is that of what is asked for.
func (p *Placement) fingerprint() string { return orders.Fingerprint(p.SKU, p.Quantity) }

// Placed is the answer to a placement. Order.Status is Reserved while it is
// not known to be durable.
type Placed struct {
	Order    *orders.Order
	Replayed bool // an earlier request under this key made the order
}

// Place is the way of one order: what this node remembers, the limiter, the
// gate, and the wait for its keeper to make it durable. Each of them has a bound
// of its own, so the caller hears, whatever hangs: a deadline for the whole way
// would cost every order some µs.
//
// Errors: *InvalidError, ErrNotFound, the limiter's, those of
// inventory.Reserve; ErrUnavailable when the outcome is unknown: the same key
// finds out.
func (s *Service) Place(ctx context.Context, p Placement) (Placed, error) {
	if err := p.validate(s.cfg.MaxQuantity); err != nil {
		return Placed{}, err
	}
	if s.remembersSoldOut(p) {
		return Placed{}, inventory.ErrSoldOut
	}
	if err := s.allow(ctx, p.Buyer, p.IP, p.SKU); err != nil {
		return Placed{}, err
	}
	sale, err := s.catalog.Sale(ctx, p.SKU)
	if err != nil {
		return Placed{}, err
	}
	placed, err := s.place(ctx, p, sale)
	if !s.isOld(sale, err) {
		return placed, err
	}
	if err := s.catalog.Refresh(ctx); err != nil {
		return Placed{}, errors.Join(orders.ErrUnavailable, err)
	}
	if sale, err = s.catalog.Sale(ctx, p.SKU); err != nil {
		return Placed{}, err
	}
	if placed, err = s.place(ctx, p, sale); s.isOld(sale, err) {
		err = inventory.ErrRebuilding // it changes faster than it can be read
	}
	return placed, err
}

// place takes an order the way that this node knows the sale to be sold.
func (s *Service) place(ctx context.Context, p Placement, sale *orders.Sale) (Placed, error) {
	switch {
	case sale.Mode == orders.ModeOver:
		return s.placeOver(ctx, p)
	case sale.ReserveOn == orders.OnPayment:
		return s.placeOnPayment(ctx, p, sale)
	case sale.Mode == orders.ModeDirect:
		return s.placeInLine(ctx, s.direct, p)
	}
	return s.placeAtGate(ctx, p, sale)
}

// isOld tells whether an order was sent the wrong way, for the sale has changed
// since this node read it. Nothing has happened to the order then.
func (s *Service) isOld(sale *orders.Sale, err error) bool {
	refusal, is := errors.AsType[*inventory.Refusal](err)
	return errors.Is(err, orders.ErrTakesUnits) || errors.Is(err, orders.ErrNotDirect) ||
		is && errors.Is(err, inventory.ErrEpoch) && refusal.Epoch > sale.GateEpoch()
}

// placeAtGate is the way of an order through gate, queue and keeper.
func (s *Service) placeAtGate(ctx context.Context, p Placement, sale *orders.Sale) (Placed, error) {
	request := inventory.Request{
		OrderID: orders.NewOrderID(p.SKU), SKU: p.SKU, Buyer: p.Buyer, Quantity: p.Quantity,
		Key: p.Key, Fingerprint: p.fingerprint(), Node: s.cfg.Node, Epoch: sale.GateEpoch(), Trace: s.cfg.Trace(ctx),
	}
	waiter := s.waiters.wait(request.OrderID)
	defer func() { s.waiters.leave(waiter) }()
	reserved, err := s.reserve(ctx, request)
	if err != nil {
		return s.refused(ctx, p, request.Fingerprint, err)
	}
	pending := &orders.Order{
		ID: reserved.OrderID, SKU: p.SKU, Buyer: p.Buyer, Quantity: p.Quantity,
		Amount: sale.Price * p.Quantity, Currency: sale.Currency, Status: orders.Reserved, CreatedAt: reserved.At,
	}
	if reserved.Replayed {
		// The order is another request's: wait for that one. It may have
		// become durable before we began to wait.
		s.waiters.leave(waiter)
		waiter = s.waiters.wait(reserved.OrderID)
		if first, err := s.first(ctx, p, request.Fingerprint); !errors.Is(err, orders.ErrNotFound) {
			return first, err
		}
	}
	if p.Async {
		return Placed{Order: pending, Replayed: reserved.Replayed}, nil
	}
	return s.await(ctx, waiter, pending, reserved.Replayed)
}

// reserve asks the gate for units. While the node does not know whether the other
// nodes have gone over to direct mode, a refusal of the gate is none: it knows
// nothing of the orders that they have placed.
func (s *Service) reserve(ctx context.Context, r inventory.Request) (inventory.Reservation, error) {
	reserved, err := s.gate.Reserve(ctx, r)
	if _, no := errors.AsType[*inventory.Refusal](err); no && s.keepers.Down(r.SKU) {
		err = errors.Join(orders.ErrUnavailable, inventory.ErrRebuilding)
	}
	return reserved, err
}

// remembersSoldOut tells whether the memory of the node refuses a placement. The
// memory is of the gate, so it knows neither the keys of orders that hold no
// units nor the orders of direct mode.
func (s *Service) remembersSoldOut(p Placement) bool {
	sale := s.catalog.Known(p.SKU)
	if sale == nil || p.Key != "" && sale.ReserveOn == orders.OnPayment || sale.Mode == orders.ModeDirect || s.keepers.Down(p.SKU) {
		return false
	}
	return s.gate.SoldOut(p.SKU, p.Buyer, sale.GateEpoch())
}

// await waits until the keeper has judged the order. When it takes too long,
// the answer is the order as reserved: it promises nothing yet.
func (s *Service) await(ctx context.Context, w *waiter, pending *orders.Order, replayed bool) (Placed, error) {
	select {
	case t := <-w.notice:
		if t.Refused != "" {
			return Placed{}, t.Refused.Err()
		}
		return answer(t.Order, replayed || t.Order.ID != pending.ID)
	case <-time.After(s.cfg.Wait):
		return Placed{Order: pending, Replayed: replayed}, nil
	case <-ctx.Done():
		return Placed{}, ctx.Err()
	}
}

// refused looks once more before a no: a keyed request of a buyer who has had
// an order may be its replay, and then the answer is that order: the database
// knows its key. Where the gate may have forgotten the buyer it is stale, and
// gives no answer.
func (s *Service) refused(ctx context.Context, p Placement, fingerprint string, no error) (Placed, error) {
	refusal, is := errors.AsType[*inventory.Refusal](no)
	if !is {
		return Placed{}, errors.Join(orders.ErrUnavailable, no)
	}
	s.keepers.Stale(ctx, p.SKU, no)
	// A busy or missing gate is no answer: the caller tries again, and hears of a
	// replay then. So the database is not asked now.
	passing := errors.Is(no, inventory.ErrBusy) || errors.Is(no, inventory.ErrEpoch) || errors.Is(no, inventory.ErrNoGate) ||
		errors.Is(no, inventory.ErrRebuilding) || errors.Is(no, inventory.ErrStale)
	if p.Key == "" || !refusal.Known || passing {
		return Placed{}, no
	}
	return s.firstOr(ctx, p, fingerprint, no)
}

// firstOr is first, from a database that has all that it has promised. Where there is
// no such order it returns no.
func (s *Service) firstOr(ctx context.Context, p Placement, fingerprint string, no error) (Placed, error) {
	ctx, cancel := context.WithTimeout(ctx, store.Timeout)
	defer cancel()
	if err := s.store.Barrier(ctx); err != nil {
		return Placed{}, err
	}
	first, err := s.first(ctx, p, fingerprint)
	if errors.Is(err, orders.ErrNotFound) {
		err = no
	}
	return first, err
}

// first is the durable order under a placement's key. It is looked for by the
// key and not by the id that the gate remembers: a gate that had forgotten the
// key may have made a second id of it, which never became an order.
func (s *Service) first(ctx context.Context, p Placement, fingerprint string) (Placed, error) {
	ctx, cancel := context.WithTimeout(ctx, store.Timeout)
	defer cancel()
	o, err := s.store.OrderByKey(ctx, p.SKU, p.Buyer, p.Key)
	o, err = store.Durably(ctx, s.store, o, err)
	switch {
	case errors.Is(err, orders.ErrNotFound):
		return Placed{}, err
	case err != nil:
		return Placed{}, errors.Join(orders.ErrUnavailable, err)
	case o.RequestHash != fingerprint:
		return Placed{}, inventory.ErrMismatch
	}
	return answer(o, true)
}

// answer is the order, or why the database rejected it.
func answer(o *orders.Order, replayed bool) (Placed, error) {
	if o.Status == orders.Rejected {
		return Placed{}, o.Reason.Err()
	}
	return Placed{Order: o, Replayed: replayed}, nil
}

// isOver tells whether Redis has forgotten the sale of sku.
func (s *Service) isOver(ctx context.Context, sku string) bool {
	sale, err := s.catalog.Sale(ctx, sku)
	return err == nil && sale.Mode == orders.ModeOver
}

// placeOver is Place for a sale that Redis has forgotten: the database knows every
// key, and nothing else is sold.
func (s *Service) placeOver(ctx context.Context, p Placement) (Placed, error) {
	if p.Key == "" {
		return Placed{}, inventory.ErrClosed
	}
	return s.firstOr(ctx, p, p.fingerprint(), inventory.ErrClosed)
}
