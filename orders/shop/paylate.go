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
	var no orders.Reason // what the payer of an open order hears, unless the order has ended meanwhile
	for {
		o, decided, err := s.store.Payment(ctx, buyer, id, ref)
		switch {
		case decided:
			return s.decided(ctx, o, err)
		case err != nil:
			return nil, err
		case no != "" && o.Status == orders.AwaitingPayment:
			return o, no.Err()
		}
		if no = p.take(ctx, o); no == "" {
			no = p.wait(ctx, o)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if no != "" && o.Status != orders.AwaitingPayment {
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
	hold    *waiter // for the keeper's verdict, once the gate has let the payment in
	pause   time.Duration
	timeout <-chan time.Time
}

func (p *latePayment) stop() {
	if p.hold != nil {
		p.waiters.leave(p.hold)
	}
}

// take asks for the order's units, once they are back. It returns why the payment
// is refused, "" while it is not decided.
func (p *latePayment) take(ctx context.Context, o *orders.Order) (no orders.Reason) {
	switch {
	case !o.Status.PayLate():
		return orders.Reason(o.Status)
	case o.RestoredAt == nil || p.hold != nil:
		return ""
	case p.isOver(ctx, o.SKU):
		return orders.Closed
	case p.catalog.Direct(o.SKU):
		return p.payDirect(ctx, o, p.ref)
	}
	p.hold, no = p.holdAgain(ctx, o, p.ref)
	return no
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

// holdAgain asks the gate for the units of an expired order, as for a new one.
// It returns whom the keeper tells, or why there are none, or neither when the
// gate is away, has not answered or has units that rest: asking again under the
// same key takes nothing more.
func (s *Service) holdAgain(ctx context.Context, o *orders.Order, ref string) (hold *waiter, refused orders.Reason) {
	id := orders.NewHoldID(o.ID)
	hold = s.waiters.wait(id)
	reserved, err := s.reserve(ctx, inventory.Request{
		OrderID: id, SKU: o.SKU, Buyer: o.Buyer, Quantity: o.Quantity,
		Key: ref, Pays: o.ID, Node: s.cfg.Node, Trace: s.cfg.Trace(ctx),
	})
	if err == nil && !reserved.Replayed {
		return hold, ""
	}
	s.waiters.leave(hold)
	if err == nil { // the same payment, sent before
		return s.waiters.wait(reserved.OrderID), ""
	}
	s.keepers.Stale(ctx, o.SKU, err)
	if errors.Is(err, inventory.ErrResting) {
		return nil, ""
	}
	return nil, orders.RefusalOf(err)
}
