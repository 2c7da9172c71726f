package orders

import (
	"math"
	"time"

	"flashsale/inventory"
)

// A Ledger is what the database knows of a SKU, read under the sale's row
// lock, and what this batch has added to it.
type Ledger struct {
	Sale  *Sale
	Now   time.Time
	left  int64 // units
	ByID  map[string]*Order
	byKey map[buyerKey]*Order
	Held  map[string]int64 // units a buyer has pending or paid; of a buyer who is full, read for a late payment only
	// Orders counts all orders that a buyer has made, of any status. Who has PerBuyer
	// of them is full: nobody may make more.
	Orders   map[string]int64
	PerBuyer int64

	Refunded map[LatePayment]bool

	PastGate  bool   // the orders were not accepted by a gate
	OnPayment bool   // the orders take no units until they are paid
	Window    Reason // NotOpen or Closed: the reason to refuse orders and payments without a gate; "" while the sale is on
}

type buyerKey struct{ buyer, key string }

func NewLedger(sale *Sale, now time.Time, rows []Order) *Ledger {
	l := &Ledger{
		Sale: sale, Now: now, left: sale.Total - sale.Sold,
		ByID: map[string]*Order{}, byKey: map[buyerKey]*Order{}, Held: map[string]int64{},
		Orders: map[string]int64{}, PerBuyer: math.MaxInt64,
		Refunded: map[LatePayment]bool{},
	}
	for i := range rows {
		l.add(&rows[i])
	}
	return l
}

// add counts an order with its buyer's.
func (l *Ledger) add(o *Order) {
	l.Know(o)
	l.Orders[o.Buyer]++
	if o.Status.Open() {
		l.Held[o.Buyer] += o.Quantity
	}
}

// Know has the order found by its id and key.
func (l *Ledger) Know(o *Order) {
	l.ByID[o.ID] = o
	if o.IdempotencyKey != nil {
		l.byKey[buyerKey{o.Buyer, *o.IdempotencyKey}] = o
	}
}

// full tells whether a buyer has as many orders as one may have.
func (l *Ledger) full(buyer string) bool { return l.Orders[buyer] >= l.PerBuyer }

// A Decision is what becomes of one queued order.
type Decision struct {
	Queued  inventory.Queued
	Order   *Order // the row: a new one, or the one that was there
	Action  Action // on the row
	Hold    HoldAction
	Refund  *Refund // of Owe
	Refused Reason  // where set, what the caller hears instead of Order
}

// An Action is what a decision does to the order's row.
type Action int

// The actions.
const (
	Find    Action = iota // nothing: Order, if any, was there
	Insert                // Order is new
	PayLate               // the order had expired, or awaited payment: this payment pays it
	Owe                   // this payment comes too late: Refund is recorded
)

// A HoldAction is what becomes of the order's hold at the gate.
type HoldAction int

// What becomes of a hold.
const (
	Keep      HoldAction = iota
	GiveBack             // it stands for nothing: its units return to sale
	Reconfirm            // the gate has forgotten that the order ended, and is told again
)

// Decide decides on one order that the gate has let in. Normally all pass;
// after Redis has lost data some do not.
func (l *Ledger) Decide(q inventory.Queued) Decision {
	if p, late := LateOf(q); late {
		return l.decideLate(q, p)
	}
	v := Decision{Queued: q}
	if row := l.ByID[q.OrderID]; row != nil {
		// The order itself, seen again: the answer of an earlier commit was
		// lost, or Redis has gone back to before it heard of it. If it has been
		// closed, its units go back now; if it has been paid, its hold is still
		// to be dropped, whatever the gate was told before it went back.
		v.Order = row
		switch {
		case row.Status.Closed():
			v.Hold = GiveBack
		case row.Status == Paid && row.RestoredAt != nil:
			v.Hold = Reconfirm
		}
		return v
	}
	if q.Key != "" {
		if first := l.byKey[buyerKey{q.Buyer, q.Key}]; first != nil {
			v.Order, v.Hold = first, GiveBack
			if first.RequestHash != q.Fingerprint {
				v.Refused = Mismatch
			}
			return v
		}
	}
	if !l.PastGate && l.Sale.TookOnPayment(q.Epoch) {
		// A node with an old copy of the sale sent the order to the gate. Another node may
		// have refused its key since, because the gate does not know who orders without units.
		v.Hold, v.Refused = GiveBack, Unavailable
		return v
	}
	if l.Window != "" {
		l.reject(&v, l.Window)
		return v
	}
	if l.full(q.Buyer) {
		// No row: or one buyer could make rows without end.
		v.Hold, v.Refused = GiveBack, BuyerLimit
		return v
	}
	v.Action = Insert
	v.Order = &Order{
		ID: q.OrderID, SKU: l.Sale.SKU, Buyer: q.Buyer, Quantity: q.Quantity,
		Amount: l.Sale.Price * q.Quantity, Currency: l.Sale.Currency,
		Status: PendingPayment, RequestHash: q.Fingerprint,
		CreatedAt: q.At,
		ExpiresAt: l.Now.Add(time.Duration(l.Sale.PaymentWindowS) * time.Second),
	}
	if q.Key != "" {
		v.Order.IdempotencyKey = &q.Key
	}
	if l.OnPayment {
		v.Order.Status, v.Order.RestoredAt = AwaitingPayment, &l.Now
		if v.Order.ExpiresAt.After(l.Sale.ClosesAt) { // paying takes units, and needs a sale that is on
			v.Order.ExpiresAt = l.Sale.ClosesAt
		}
	}
	switch {
	case l.Held[q.Buyer]+q.Quantity > l.Sale.PerBuyerLimit:
		l.reject(&v, BuyerLimit)
	case q.Quantity > l.left:
		l.reject(&v, SoldOut)
	case l.OnPayment: // it takes no units yet; what can never be had was refused above
	default:
		l.left -= q.Quantity
	}
	if v.Action == Insert {
		l.add(v.Order)
	}
	return v
}

// reject keeps the order as a row that holds nothing. Its units go back to
// the gate the way of every closed order. What no gate has let in has no units
// to give back, and its caller no order to ask for: it leaves no row.
func (l *Ledger) reject(v *Decision, reason Reason) {
	if l.PastGate {
		v.Action, v.Order, v.Refused = Find, nil, reason
		return
	}
	v.Order.Status, v.Order.Reason = Rejected, reason
	v.Order.ExpiresAt, v.Order.ClosedAt = l.Now, &l.Now
}
