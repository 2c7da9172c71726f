package shop

import (
	"context"
	"errors"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/controller"
)

// A payment that arrives after its order has expired is a new attempt. Once the order's
// units are released, the payment asks the gate for the same number of units, under a hold
// of its own, and takes the path of an order through the queue to the keeper. The keeper
// inserts no row. It turns the expired order into a paid one. If there are not enough
// units, a refund claim is recorded.
//
// A payment of an order that holds no units yet (orders/payment.go) takes the same path, except
// that a rejection leaves the order open and creates no refund claim.
//
// Gate, queue and keeper know the attempt by the key under which it is reserved.
// Therefore a payment that is sent many times at once has one hold, and a queued payment
// is decided on even if no caller waits for it.

// takeUnitsAndPay handles a payment that Store.Pay has refused. It waits until the units of an
// expired order are released, asks the gate for them again, and waits for the keeper, for at
// most Config.Wait. With the calls to the stores, it takes at most Config.Wait plus the
// store's Timeout. The answer is read from the database, so a repetition
// receives the same answer.
//
// Errors: ErrClaimed after a refund claim is recorded; ErrAlreadyPaid; the reason of a
// refusal if the order stays open. After any other error the payment may be undecided, and a
// repetition with the same reference returns the outcome.
func (s *Service) takeUnitsAndPay(ctx context.Context, buyer, id, ref string) (*orders.Order, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Wait+s.store.Timeout)
	defer cancel()
	p := &payment{Service: s, ref: ref, pause: 5 * time.Millisecond, timeout: time.After(s.cfg.Wait)}
	defer p.stop()
	var refusal orders.Reason // reason of the last refusal
	for {
		o, decided, err := s.store.Payment(ctx, buyer, id, ref)
		switch {
		case decided:
			if err == nil && o.RestoredAt == nil {
				s.controller.RequestRelease(ctx, o.SKU)
			}
			return o, err
		case err != nil:
			return nil, err
		case refusal != "" && o.Status == orders.AwaitingPayment:
			return o, p.finalOrUnavailable(ctx, o.SKU, refusal)
		}
		if refusal = p.take(ctx, o); refusal == "" {
			refusal = p.wait(ctx, o)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if refusal != "" && o.Status != orders.AwaitingPayment {
			if err := p.finalOrUnavailable(ctx, o.SKU, refusal); errors.Is(err, orders.ErrUnavailable) && refusal != orders.Unavailable {
				return nil, err // the refusal may not be final, so no refund is due yet
			}
			if err := s.store.RecordClaim(ctx, o, ref, refusal); err != nil {
				return nil, err
			}
		}
	}
}

// A payment is a Payment in progress.
type payment struct {
	*Service
	ref     string
	hold    *waiter // waits for the keeper's decision, once the gate has accepted the payment
	refusal refusal // source and epoch of the last refusal
	pause   time.Duration
	timeout <-chan time.Time
}

// finalOrUnavailable is like Service.finalOrUnavailable, for a payment. The caller must have
// read from the database that the payment is not decided.
func (p *payment) finalOrUnavailable(ctx context.Context, sku string, reason orders.Reason) error {
	r := p.refusal
	r.reason, r.mayBeReplay = reason.Err(), true
	return p.Service.finalOrUnavailable(ctx, sku, r, func(ctx context.Context) (*orders.Sale, error) {
		_, sale, err := p.store.Lookup(ctx, sku, "", "")
		return sale, err
	})
}

func (p *payment) stop() {
	if p.hold != nil {
		p.waiters.leave(p.hold)
	}
}

// take asks for the order's units, once the first hold of the order is released. It returns
// the reason if the payment is refused, and "" while the payment is undecided.
func (p *payment) take(ctx context.Context, o *orders.Order) orders.Reason {
	sale, err := p.catalog.Sale(ctx, o.SKU)
	switch {
	case !o.Status.MustTakeUnits():
		return orders.Reason(o.Status)
	case o.RestoredAt == nil || p.hold != nil:
		return ""
	case err == nil && sale.Mode == orders.ModeOver:
		p.refusal = refusal{source: over}
		return orders.Closed
	case err == nil && sale.Mode == orders.ModeDirect:
		p.refusal = refusal{source: database}
		return p.payDirect(ctx, o, p.ref)
	}
	return p.holdAgain(ctx, o)
}

// wait waits for the keeper's notice, or for a pause, because the notice can be lost. The
// caller then reads the payment from the database. After Config.Wait in all, wait returns the
// reason why the payment is undecided.
func (p *payment) wait(ctx context.Context, o *orders.Order) orders.Reason {
	var notice <-chan controller.Notice
	if p.hold != nil {
		notice, p.pause = p.hold.notice, recheckAfter
	}
	recheck := time.After(p.pause)
	p.pause = min(2*p.pause, recheckAfter)
	select {
	case <-notice:
	case <-recheck:
	case <-ctx.Done():
	case <-p.timeout:
		if o.RestoredAt == nil {
			return orders.NotReleased
		}
		return orders.Unavailable
	}
	return ""
}

// holdAgain asks the gate for the units of an order, as for a new order. It returns the reason
// if the gate refuses, and "" otherwise. If the gate is stale or does not answer, or if its
// units are cooling down, takeUnitsAndPay tries the payment again with the same key.
func (p *payment) holdAgain(ctx context.Context, o *orders.Order) orders.Reason {
	if p.controller.ForeignRedis() {
		return ""
	}
	id := orders.NewHoldID(o.ID)
	hold := p.waiters.wait(id)
	reserved, err := p.gate.Reserve(ctx, inventory.Request{
		OrderID: id, SKU: o.SKU, Buyer: o.Buyer, Quantity: o.Quantity,
		Key: p.ref, PaysOrder: o.ID, Node: p.store.Node, Trace: p.cfg.Trace(ctx),
	})
	if err == nil && !reserved.Replayed {
		p.hold = hold
		return ""
	}
	p.waiters.leave(hold)
	switch {
	case err == nil: // the gate has accepted this payment before
		p.hold = p.waiters.wait(reserved.OrderID)
	case errors.Is(err, inventory.ErrStale):
		p.controller.ReplaceStaleGate(ctx, o.SKU, reserved.Epoch)
	case !errors.Is(err, inventory.ErrCoolingDown):
		p.refusal = refusal{source: gate, epoch: reserved.Epoch}
		return orders.RefusalOf(err)
	}
	return ""
}

// payDirect decides on a payment while the sale has no gate. It returns the reason if an open
// order's payment is refused. Otherwise it returns "", and Store.Payment returns the outcome,
// if there is one.
func (s *Service) payDirect(ctx context.Context, o *orders.Order, ref string) orders.Reason {
	d, err := s.direct.place(ctx, o.SKU, inventory.QueuedOrder{
		OrderID: orders.NewHoldID(o.ID), Buyer: o.Buyer, Quantity: o.Quantity, Key: ref, PaysOrder: o.ID,
	})
	if err != nil || o.Status != orders.AwaitingPayment { // the refusal of an expired order's payment is a refund claim
		return ""
	}
	return d.Refused
}
