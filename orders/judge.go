package orders

import (
	"time"

	"flashsale/inventory"
)

// A ledger is what the database knows of a SKU, read under the sale's row
// lock, and what this batch has added to it.
type ledger struct {
	sale  *Sale
	now   time.Time
	left  int64 // units
	byID  map[string]*Order
	byKey map[buyerKey]*Order
	held  map[string]int64 // units a buyer has pending or paid

	refunded map[latePayment]bool

	unguarded bool
	ungated   bool // no gate has let the orders in
	unheld    bool // they take no units until they are paid
}

type buyerKey struct{ buyer, key string }

func newLedger(sale *Sale, now time.Time, rows []Order) *ledger {
	l := &ledger{
		sale: sale, now: now, left: sale.Total - sale.Sold,
		byID: map[string]*Order{}, byKey: map[buyerKey]*Order{}, held: map[string]int64{},
		refunded: map[latePayment]bool{},
	}
	for i := range rows {
		l.add(&rows[i])
	}
	return l
}

func (l *ledger) add(o *Order) {
	l.byID[o.ID] = o
	if o.IdempotencyKey != nil {
		l.byKey[buyerKey{o.Buyer, *o.IdempotencyKey}] = o
	}
	if o.Status.Open() {
		l.held[o.Buyer] += o.Quantity
	}
}

// A verdict is what becomes of one queued order.
type verdict struct {
	queued inventory.Queued
	// order is the row: a new one, or the one that was there.
	order *Order
	// insert: order is new.
	insert bool
	// late: order has expired, and this payment pays it.
	late bool
	// refund: what is owed instead.
	refund *Refund
	// giveBack: the hold at the gate stands for nothing and returns to sale.
	giveBack bool
	// unrestore: the gate has forgotten that the order ended.
	unrestore bool
	// refused, where set, is what the caller hears instead of order: a problem code.
	refused string
}

// judge decides on one order that the gate has let in. Normally all pass;
// after Redis has lost data some do not.
func (l *ledger) judge(q inventory.Queued) verdict {
	if p, late := lateOf(q.Key); late {
		return l.judgeLate(q, p)
	}
	v := verdict{queued: q}
	if row := l.byID[q.OrderID]; row != nil {
		// The order itself, seen again: the answer of an earlier commit was
		// lost, or Redis has gone back to before it heard of it. If it has been
		// closed, its units go back now; if it has been paid, its hold is still
		// to be dropped, whatever the gate was told before it went back.
		v.order = row
		v.giveBack = row.Status.Closed()
		v.unrestore = row.Status == Paid && row.RestoredAt != nil
		return v
	}
	if q.Key != "" {
		if first := l.byKey[buyerKey{q.Buyer, q.Key}]; first != nil {
			v.order, v.giveBack = first, true
			if first.RequestHash != q.Fingerprint {
				v.refused = "idempotency_mismatch"
			}
			return v
		}
	}
	v.insert = true
	v.order = &Order{
		ID: q.OrderID, SKU: l.sale.SKU, Buyer: q.Buyer, Quantity: q.Quantity,
		Amount: l.sale.Price * q.Quantity, Currency: l.sale.Currency,
		Status: PendingPayment, RequestHash: q.Fingerprint,
		CreatedAt: q.At,
		ExpiresAt: l.now.Add(time.Duration(l.sale.PaymentWindowS) * time.Second),
	}
	if q.Key != "" {
		v.order.IdempotencyKey = &q.Key
	}
	if l.unheld {
		v.order.Status, v.order.RestoredAt = Unheld, &l.now
		if v.order.ExpiresAt.After(l.sale.ClosesAt) { // paying takes units, and needs a sale that is on
			v.order.ExpiresAt = l.sale.ClosesAt
		}
	}
	switch {
	case l.unguarded:
	case l.held[q.Buyer]+q.Quantity > l.sale.PerBuyerLimit:
		l.reject(&v, "buyer_limit")
	case q.Quantity > l.left:
		l.reject(&v, "sold_out")
	case l.unheld: // there is enough for any one of them
	default:
		l.left -= q.Quantity
	}
	if v.insert {
		l.add(v.order)
	}
	return v
}

// reject keeps the order as a row that holds nothing. Its units go back to
// the gate the way of every closed order. What no gate has let in has no units
// to give back, and its caller no order to ask for: it leaves no row.
func (l *ledger) reject(v *verdict, reason string) {
	if l.ungated {
		v.insert, v.order, v.refused = false, nil, reason
		return
	}
	v.order.Status, v.order.Reason = Rejected, reason
	v.order.ExpiresAt, v.order.ClosedAt = l.now, &l.now
}
