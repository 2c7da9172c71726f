package orders

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"flashsale/inventory"
)

// A payment that comes after its order has expired is a new attempt. Once the
// order's units are back on sale, it asks the gate for as many again, under a
// hold of its own, and goes through the queue to the keeper like any order; the
// keeper inserts nothing but turns the expired order into a paid one. What does
// not fit is refunded.
//
// So is every payment of an order that holds no units yet (unheld.go), but that
// what does not fit leaves it open, and nothing is owed.
//
// Gate, queue and keeper know the attempt by the key under which it is
// reserved. So the same payment sent many times at once has one hold, and a
// payment that is in the queue is decided even when nobody waits for it.

// A latePayment is a payment of an order that has expired, or is unheld.
type latePayment struct{ order, ref string }

// key is what the payment is queued under, in place of an idempotency key. No
// client can send one that begins with a space.
func (p latePayment) key() string { return " " + p.order + " " + p.ref }

// lateOf tells whether a queued order is the attempt of a late payment.
func lateOf(key string) (latePayment, bool) {
	rest, late := strings.CutPrefix(key, " ")
	if !late {
		return latePayment{}, false
	}
	order, ref, _ := strings.Cut(rest, " ")
	return latePayment{order, ref}, true
}

// payLate is what becomes of a payment that Store.Pay has refused: it waits for
// the units of an expired order to be back, asks for them again, and waits for
// the keeper, all in all at most as long as a buyer waits. What the answer is
// stands in the database, and only there: whoever comes again hears the same.
//
// Errors: ErrOrderClosed, and then a refund is recorded; ErrAlreadyPaid; for an
// order that stays open why it does, as a refusal of the gate; else
// it may be undecided: the same reference finds out.
func (s *Service) payLate(ctx context.Context, buyer, id, ref string) (*Order, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Wait+storeTimeout)
	defer cancel()
	patience := time.NewTimer(s.cfg.Wait)
	defer patience.Stop()

	var hold *waiter // for the keeper's verdict, once the gate has let the payment in
	defer func() {
		if hold != nil {
			s.waiters.leave(hold)
		}
	}()
	no := "" // what the payer of an open order hears, unless the order has ended meanwhile
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, recheckAfter) {
		o, decided, err := s.store.payment(ctx, buyer, id, ref)
		if err != nil && !decided {
			return nil, err
		}
		if decided {
			if err == nil && o.RestoredAt == nil {
				s.ended(ctx, o.SKU)
			}
			return o, err
		}
		if no != "" && o.Status == Unheld {
			return o, reasonError(no)
		}
		back := "" // why the payment is to be given back
		switch {
		case o.Status != Expired && o.Status != Unheld:
			back = string(o.Status)
		case o.RestoredAt != nil && hold == nil && s.catalog.direct(o.SKU):
			back = s.payDirect(ctx, o, ref)
		case o.RestoredAt != nil && hold == nil && s.cfg.PerOrder:
			back, err = s.payUnderLock(ctx, o, ref)
		case o.RestoredAt != nil && hold == nil:
			hold, back = s.holdAgain(ctx, o, ref)
		}
		if err != nil {
			return nil, err
		}
		var verdict <-chan told
		if hold != nil { // it hears, and looks only for a message that was lost
			verdict, pause = hold.told, recheckAfter
		}
		if back == "" {
			again := time.NewTimer(pause)
			select {
			case <-verdict: // it is in the database
			case <-again.C: // so may it be now: a message can be lost
			case <-patience.C:
				if back = noAnswer; o.RestoredAt == nil {
					back = notRestored
				}
			case <-ctx.Done():
			}
			again.Stop()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if no = back; back != "" && o.Status != Unheld {
			if err := s.store.refund(ctx, o, ref, back); err != nil {
				return nil, err
			}
		}
	}
}

// holdAgain asks the gate for the units of an expired order, as for a new one.
// It returns whom the keeper tells, or why there are none, or neither when the
// gate is away or has not answered: asking again under the same key takes
// nothing more.
func (s *Service) holdAgain(ctx context.Context, o *Order, ref string) (hold *waiter, refused string) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, ""
	}
	hold = s.waiters.wait(id.String())
	reserved, err := s.gate.Reserve(ctx, inventory.Request{
		OrderID: id.String(), SKU: o.SKU, Buyer: o.Buyer, Quantity: o.Quantity,
		Key: latePayment{o.ID, ref}.key(), Node: s.cfg.Node, Trace: s.cfg.Trace(ctx),
	})
	if err == nil && !reserved.Replayed {
		return hold, ""
	}
	s.waiters.leave(hold)
	if err == nil { // the same payment, sent before
		return s.waiters.wait(reserved.OrderID), ""
	}
	return nil, refusalOf(err)
}

// judgeLate decides on the attempt of a late payment. Its hold either becomes
// that of the paid order, or goes back.
func (l *ledger) judgeLate(q inventory.Queued, p latePayment) verdict {
	row := l.byID[p.order]
	v := verdict{queued: q, order: row, giveBack: true}
	switch {
	case row == nil || row.Status == PendingPayment: // expired orders do not go away, nor back
		v.refused = "unavailable"
	case row.HoldID != nil && *row.HoldID == q.OrderID:
		// This attempt, seen again: it has paid, and its hold is dropped, not
		// given back.
		v.giveBack, v.unrestore = false, row.RestoredAt != nil
	case l.refunded[p]:
		v.refused = "order_closed"
	case row.paidBy(p.ref): // another attempt of the same payment has
	case row.Status == Paid:
		v.refused = "already_paid"
	default:
		reason := l.fits(row)
		if reason != "" && row.Status == Unheld && l.ungated && l.sale.Mode != modeDirect {
			v.refused = reason // the payer waits, and no gate has the same payment in its queue
			return v
		}
		if reason != "" {
			v.refused, v.refund = "order_closed", newRefund(row, p.ref, reason, l.now)
			l.refunded[p] = true
			return v
		}
		v.giveBack, v.late = false, true
		l.left -= row.Quantity
		l.held[row.Buyer] += row.Quantity
		row.Status, row.PaymentRef, row.HoldID = Paid, &p.ref, &q.OrderID
		row.ClosedAt, row.RestoredAt = nil, nil
	}
	return v
}

// fits tells why an order cannot be paid anew, "" when it can. Only one whose
// units are known to be back may take as many again: else they would be taken
// once and given back twice.
func (l *ledger) fits(o *Order) string {
	switch {
	case o.Status != Expired && o.Status != Unheld:
		return string(o.Status)
	case o.RestoredAt == nil:
		return notRestored
	case l.unguarded:
	case l.held[o.Buyer]+o.Quantity > l.sale.PerBuyerLimit:
		return "buyer_limit"
	case o.Quantity > l.left:
		return "sold_out"
	}
	return ""
}

// readLate reads in full the orders that late payments of the batch are for,
// and what is refunded of them.
func (l *ledger) readLate(tx *gorm.DB, batch []inventory.Queued) error {
	var ids []string
	for _, q := range batch {
		if p, late := lateOf(q.Key); late {
			ids = append(ids, p.order)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var rows []Order
	if err := tx.Where("id IN ? AND sku = ?", ids, l.sale.SKU).Find(&rows).Error; err != nil {
		return fmt.Errorf("read %d orders paid late: %w", len(ids), err)
	}
	for _, o := range rows {
		if known := l.byID[o.ID]; known != nil { // of one of the batch's buyers
			*known = o
		}
	}
	var refunds []Refund
	if err := tx.Where("order_id IN ?", ids).Find(&refunds).Error; err != nil {
		return fmt.Errorf("read refunds of %d orders: %w", len(ids), err)
	}
	for _, r := range refunds {
		l.refunded[latePayment{r.OrderID, r.PaymentRef}] = true
	}
	return nil
}

// payAnew turns the order of a verdict from expired or unheld into paid, in one
// conditional update. The gate then hears of it as of every paid order, only
// that the hold to be dropped is the attempt's.
func payAnew(tx *gorm.DB, v verdict, now time.Time) error {
	p, _ := lateOf(v.queued.Key)
	r := tx.Model(&Order{}).Where("id = ? AND status IN ? AND restored_at IS NOT NULL", p.order, []Status{Expired, Unheld}).
		Updates(map[string]any{
			"status": Paid, "payment_ref": p.ref, "paid_at": now, "closed_at": nil, "restored_at": nil, "hold_id": v.queued.OrderID,
		})
	if r.Error == nil && r.RowsAffected != 1 {
		r.Error = errors.New("it is not as it was read")
	}
	if r.Error != nil {
		return fmt.Errorf("pay order %s anew: %w", p.order, r.Error)
	}
	return nil
}
