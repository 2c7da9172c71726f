package shop

import (
	"context"
	"errors"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/controller"
	"flashsale/orders/store"
)

// A payment that comes after its order has expired is a new attempt. Once the
// order's units are back on sale, it asks the gate for as many again, under a
// hold of its own, and goes through the queue to the keeper like any order; the
// keeper inserts nothing but turns the expired order into a paid one. What does
// not fit is refunded.
//
// So is every payment of an order that holds no units yet (onpayment.go), but that
// what does not fit leaves it open, and nothing is owed.
//
// Gate, queue and keeper know the attempt by the key under which it is
// reserved. So the same payment sent many times at once has one hold, and a
// payment that is in the queue is decided even when nobody waits for it.

// payLate is what becomes of a payment that Store.Pay has refused: it waits for
// the units of an expired order to be back, asks for them again, and waits for
// the keeper, all in all at most as long as a buyer waits. What the answer is
// stands in the database, and only there: whoever comes again hears the same.
//
// Errors: ErrOrderClosed, and then a refund is recorded; ErrAlreadyPaid; for an
// order that stays open why it does, as a refusal of the gate; else
// it may be undecided: the same reference finds out.
func (s *Service) payLate(ctx context.Context, buyer, id, ref string) (*orders.Order, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Wait+store.Timeout)
	defer cancel()
	p := &latePayment{Service: s, ref: ref, pause: 5 * time.Millisecond, timeout: time.After(s.cfg.Wait)}
	defer p.stop()
	var no orders.Reason // answers the payer of an open order, unless the order has ended since
	for {
		o, decided, err := s.store.Payment(ctx, buyer, id, ref)
		switch {
		case decided:
			return s.decided(ctx, o, err)
		case err != nil:
			return nil, err
		case no != "" && o.Status == orders.AwaitingPayment:
			return o, p.refuse(ctx, o.SKU, no)
		}
		if no = p.take(ctx, o); no == "" {
			no = p.wait(ctx, o)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if no != "" && o.Status != orders.AwaitingPayment {
			if err := p.refuse(ctx, o.SKU, no); errors.Is(err, orders.ErrUnavailable) && no != orders.Unavailable {
				return nil, err // the gate may be an old one: nothing is owed yet
			}
			if err := s.store.Refund(ctx, o, ref, no); err != nil {
				return nil, err
			}
		}
	}
}

// decided is the answer that the database has, once it is durable.
func (s *Service) decided(ctx context.Context, o *orders.Order, no error) (*orders.Order, error) {
	if no == nil && o.RestoredAt == nil {
		s.keepers.Ended(ctx, o.SKU)
	}
	if err := s.store.Barrier(ctx); err != nil {
		return nil, err
	}
	return o, no
}

// A latePayment is one that is under way.
type latePayment struct {
	*Service
	ref     string
	hold    *waiter // for the keeper's decision, once the gate has accepted the payment
	refusal refusal // where the last refusal comes from
	pause   time.Duration
	timeout <-chan time.Time
}

// refuse returns why the payment is refused, if that is final: see Service.refuse. The
// caller has read that the payment is not decided.
func (p *latePayment) refuse(ctx context.Context, sku string, no orders.Reason) error {
	r := p.refusal
	r.reason, r.known = no.Err(), true
	return p.Service.refuse(ctx, sku, r, func(ctx context.Context) (*orders.Sale, error) {
		sale, err := p.store.Sale(ctx, sku)
		return store.Durably(ctx, p.store, sale, err)
	})
}

func (p *latePayment) stop() {
	if p.hold != nil {
		p.waiters.leave(p.hold)
	}
}

// take asks for the order's units, once its first hold is released. It returns why the
// payment is refused, or "" while it is not decided.
func (p *latePayment) take(ctx context.Context, o *orders.Order) (no orders.Reason) {
	switch {
	case !o.Status.PayLate():
		return orders.Reason(o.Status)
	case o.RestoredAt == nil || p.hold != nil:
		return ""
	case p.isOver(ctx, o.SKU):
		p.refusal = refusal{source: over}
		return orders.Closed
	case p.catalog.Direct(o.SKU):
		p.refusal = refusal{source: database}
		return p.payDirect(ctx, o, p.ref)
	}
	return p.holdAgain(ctx, o)
}

// isOver reports whether Redis has forgotten the sale of sku.
func (s *Service) isOver(ctx context.Context, sku string) bool {
	sale, err := s.catalog.Sale(ctx, sku)
	return err == nil && sale.Mode == orders.ModeOver
}

// wait waits for the next look into the database: for the keeper's notice, or for a
// pause, as the notice can be lost. It returns why nobody has decided, where the
// payer has waited for long enough.
func (p *latePayment) wait(ctx context.Context, o *orders.Order) (no orders.Reason) {
	var notice <-chan controller.Notice
	if p.hold != nil {
		notice, p.pause = p.hold.notice, recheckAfter
	}
	again := time.After(p.pause)
	p.pause = min(2*p.pause, recheckAfter)
	select {
	case <-notice:
	case <-again:
	case <-ctx.Done():
	case <-p.timeout:
		if o.RestoredAt == nil {
			return orders.NotReleased
		}
		return orders.Unavailable
	}
	return ""
}

// holdAgain asks the gate for the units of an order, as for a new one. It returns why there
// are none. The reason is empty if the gate has accepted the payment, or if it is away, did
// not answer, or has units that rest: then the payment is tried again under the same key.
func (p *latePayment) holdAgain(ctx context.Context, o *orders.Order) orders.Reason {
	id := orders.NewHoldID(o.ID)
	hold := p.waiters.wait(id)
	reserved, err := p.gate.Reserve(ctx, inventory.Request{
		OrderID: id, SKU: o.SKU, Buyer: o.Buyer, Quantity: o.Quantity,
		Key: p.ref, Pays: o.ID, Node: p.store.Node, Trace: p.cfg.Trace(ctx),
	})
	if err == nil && !reserved.Replayed {
		p.hold = hold
		return ""
	}
	p.waiters.leave(hold)
	switch {
	case err == nil: // the same payment, sent before
		p.hold = p.waiters.wait(reserved.OrderID)
	case errors.Is(err, inventory.ErrStale):
		p.keepers.Stale(ctx, o.SKU, reserved.Epoch)
	case !errors.Is(err, inventory.ErrResting):
		p.refusal = refusal{source: gate, epoch: reserved.Epoch}
		return orders.RefusalOf(err)
	}
	return ""
}
