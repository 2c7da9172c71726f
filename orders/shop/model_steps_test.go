package shop

import (
	"context"
	"errors"
	"slices"

	"flashsale/inventory"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
	"flashsale/orders/store"
)

// payLate sends a late payment through a node that crashes once the payment is queued. If the
// gate refuses the payment, a refund claim is recorded. If the payer is not patient, a claim is
// recorded although the payment is queued.
func (m *modelSale) payLate(o *orders.Order, ref string, patient bool) {
	ctx, p := m.outer.Context(), orders.Payment{OrderID: o.ID, Ref: ref}
	row, decided, err := m.Store.Payment(ctx, o.Buyer, o.ID, ref)
	_, refunded := m.refunds[p]
	mine := o.PaymentRef != nil && *o.PaymentRef == ref
	if want := map[bool]error{refunded: orders.ErrOrderClosed, !refunded && o.Status == orders.Paid && !mine: orders.ErrAlreadyPaid}[true]; !errors.Is(err, want) ||
		decided != (refunded || o.Status == orders.Paid) {
		m.t.Fatalf("late payment %v of %+v: got decided %v, error %v, the model wants %v", p, *o, decided, err, want)
	}
	if decided || row.RestoredAt == nil {
		return
	}
	late := &payment{Service: m.shop, ref: ref}
	reason := late.holdAgain(ctx, row)
	if hold := late.hold; hold != nil {
		late.stop()
		if !slices.ContainsFunc(m.queued, func(q inventory.QueuedOrder) bool { return q.OrderID == hold.id }) {
			m.queued = append(m.queued, inventory.QueuedOrder{OrderID: hold.id, Buyer: o.Buyer, Quantity: o.Quantity, Key: ref, PaysOrder: o.ID})
		}
	}
	if reason == "" && !patient {
		reason = orders.Unavailable
	}
	if reason != "" {
		if err := m.Store.RecordClaim(ctx, row, ref, reason); err != nil {
			m.t.Fatalf("record a claim: got error %v, want none", err)
		}
		m.refunds[p] = reason
	}
}

// order places or replays an order. If the database has an order with the key, the answer must
// be that order, or a reserved order of a gate that has forgotten the key.
func (m *modelSale) order(p Placement) {
	p.SKU, p.Async = "S", true
	var answer Placed
	var err error
	check.Eventually(m.outer, "no units are cooling down", func() bool {
		answer, err = m.shop.Place(m.outer.Context(), p)
		return !errors.Is(err, inventory.ErrCoolingDown) && !(m.isOpen && errors.Is(err, inventory.ErrRebuilding))
	})
	first := slices.IndexFunc(m.rows, func(o orders.Order) bool {
		return p.Key != "" && o.Buyer == p.Buyer && o.IdempotencyKey != nil && *o.IdempotencyKey == p.Key
	})
	switch {
	case err != nil && isUnavailable(err):
	case first >= 0 && m.rows[first].RequestHash != orders.Fingerprint(p.SKU, p.Quantity):
		if !errors.Is(err, inventory.ErrMismatch) && !(err == nil && answer.Order.Status == orders.Reserved) {
			m.t.Fatalf("order %+v with the key of %+v: got %+v, error %v, want %v", p, m.rows[first], answer.Order, err, inventory.ErrMismatch)
		}
	case first >= 0 && m.rows[first].Status == orders.Rejected:
		if err == nil && answer.Order.Status != orders.Reserved {
			m.t.Fatalf("order %+v that was rejected before: got %+v, want reserved or a refusal", p, answer.Order)
		}
	case first >= 0:
		if err != nil || answer.Order.Status != orders.Reserved && (answer.Order.ID != m.rows[first].ID || answer.Order.Status != m.rows[first].Status) {
			m.t.Fatalf("replay %+v: got %+v, error %v, want %+v", p, answer.Order, err, m.rows[first])
		}
	case err == nil && answer.Order.Status != orders.Reserved:
		m.t.Fatalf("order %+v without a keeper: got %+v, want a reserved order", p, answer.Order)
	}
	if err == nil && answer.Order.Status == orders.Reserved && !answer.Replayed {
		m.queued = append(m.queued, inventory.QueuedOrder{
			OrderID: answer.Order.ID, Buyer: p.Buyer, Quantity: p.Quantity, Key: p.Key, Fingerprint: orders.Fingerprint(p.SKU, p.Quantity),
		})
	}
}

// close pays, cancels or expires an order, and compares the error with the model.
func (m *modelSale) close(o *orders.Order, how string) {
	ctx, id := m.outer.Context(), o.ID
	var err, want error
	_, claimed := m.refunds[orders.Payment{OrderID: id, Ref: "ref"}]
	switch how {
	case "pay":
		_, err = m.Store.Pay(ctx, o.Buyer, id, "ref")
		if claimed && o.Status == orders.PendingPayment {
			want = orders.ErrAmountMismatch
		} else if o.Status == orders.PendingPayment {
			o.Status = orders.Paid
		} else if o.Status != orders.Paid {
			want = orders.ErrOrderClosed
		} else if o.PaymentRef != nil { // paid by a late payment with another reference
			want = orders.ErrAlreadyPaid
		}
	case "cancel":
		_, err = m.Store.Cancel(ctx, o.Buyer, id)
		switch o.Status {
		case orders.PendingPayment:
			o.Status = orders.Cancelled
		case orders.Paid:
			want = orders.ErrAlreadyPaid
		case orders.Expired, orders.Rejected:
			want = orders.ErrOrderClosed
		}
	case "pay too late":
		kit.MakeOverdue(m.outer, m.Store.DB, id)
		_, err = m.Store.Pay(ctx, o.Buyer, id, "ref")
		if claimed && o.Status == orders.PendingPayment { // the order stays overdue, and the next call of Expire closes it
			want = orders.ErrAmountMismatch
			_, failed := m.Store.Expire(ctx)
			check.Must(m.outer, failed)
			o.Status = orders.Expired
			break
		}
		if o.Status == orders.PendingPayment {
			o.Status = orders.Expired
		}
		if o.Status != orders.Paid {
			want = orders.ErrOrderClosed
		} else if o.PaymentRef != nil {
			want = orders.ErrAlreadyPaid
		}
	case "void":
		var v store.Voided
		v, err = m.Store.Void(ctx, "S", []string{id}, "bots")
		if paid := o.Status == orders.Paid; paid != (len(v.Voided) == 1) {
			m.t.Fatalf("void of %+v: got %+v, want it voided if it is paid", o, v)
		} else if paid {
			ref := "ref"
			if o.PaymentRef != nil {
				ref = *o.PaymentRef
			}
			m.refunds[orders.Payment{OrderID: id, Ref: ref}] = "bots"
			o.Status = orders.Cancelled
		}
	case "pay a wrong amount":
		p, wrong := orders.Payment{OrderID: id, Ref: "ref"}, int64(1)
		_, err = m.Store.RefuseCharge(ctx, o.Buyer, id, p.Ref, orders.Charge{Amount: &wrong})
		want = orders.ErrAmountMismatch
		if _, known := m.refunds[p]; !known && (o.Status != orders.Paid || o.PaymentRef != nil) {
			m.refunds[p] = orders.AmountMismatch
		}
	case "expire":
		kit.MakeOverdue(m.outer, m.Store.DB, id)
		_, err = m.Store.Expire(ctx)
		if o.Status == orders.PendingPayment {
			o.Status = orders.Expired
		}
	}
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		m.t.Fatalf("call %s of %+v: got error %v, want %v", how, o, err, want)
	}
}

// keep takes over the sale and runs the keeper until its work is done or a fault stops it.
func (m *modelSale) keep(faults kit.Plan) {
	failing := false
	plan := kit.Plan(func(at kit.Fault) error {
		if failing {
			return faults(at)
		}
		return nil
	})
	k := bare.KeeperOf(m.outer, bare.FaultyStore(m.outer, m.Store, plan), bare.FaultyGate(m.Gate, plan), "S")
	failing = faults != nil
	if err := k.Run(m.outer.Context()); err != nil && !errors.Is(err, kit.ErrFault) {
		m.t.Fatalf("keeper's run: got error %v, want none or the injected fault", err)
	}
	failing = false // the method stale may run this keeper again
	m.keepers = append(m.keepers, k)
}

// stale runs an earlier keeper again, which does not know that it may have been replaced.
func (m *modelSale) stale(k *bare.Keeper, newest bool) {
	k.Work |= keeper.ReleaseHolds | keeper.CorrectGate
	err := k.Run(context.WithoutCancel(m.outer.Context()))
	fenced := errors.Is(err, orders.ErrFenced)
	if err != nil && !fenced || newest && fenced {
		m.t.Fatalf("keeper with fence %d, run again: got error %v, want a fencing error only if a newer keeper exists", k.Fence(), err)
	}
}
