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

	Claimed map[LatePayment]bool

	PastGate  bool   // the orders were not accepted by a gate
	OnPayment bool   // the orders take no units until they are paid
	Window    Reason // NotOpen or Closed: the reason to refuse orders and payments without a gate; "" while the sale is on
}

type buyerKey struct{ buyer, key string }

// NewLedger returns a Ledger of a sale and the rows that matter to its queue.
func NewLedger(sale *Sale, now time.Time, rows []Order) *Ledger {
	l := &Ledger{
		Sale: sale, Now: now, left: sale.Total - sale.Sold,
		ByID: map[string]*Order{}, byKey: map[buyerKey]*Order{}, Held: map[string]int64{},
		Orders: map[string]int64{}, PerBuyer: math.MaxInt64,
		Claimed: map[LatePayment]bool{},
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

// full reports whether a buyer has made as many orders as a buyer may make.
func (l *Ledger) full(buyer string) bool { return l.Orders[buyer] >= l.PerBuyer }

// A Decision is what becomes of one queued order.
type Decision struct {
	Queued  inventory.Queued
	Order   *Order // the row: a new one, or the one that was there
	Action  Action // on the row
	Hold    HoldAction
	Claim   *Claim // of RecordClaim
	Refused Reason // if set, the caller receives it instead of Order
}

// An Action is what a decision does to the order's row.
type Action int

// The actions.
const (
	Find        Action = iota // nothing: Order, if any, was there
	Insert                    // Order is new
	PayLate                   // the order had expired, or awaited payment: this payment pays it
	RecordClaim               // this payment comes too late: Claim is recorded
)

// A HoldAction is what becomes of the order's hold at the gate.
type HoldAction int

// What becomes of a hold.
const (
	Keep      HoldAction = iota
	Release              // no order has the hold: its units are released
	Reconfirm            // the gate has forgotten that the order ended, and is told again
)

// Decide decides on one order that the gate has accepted. It rejects an order only after
// Redis has lost data.
func (l *Ledger) Decide(q inventory.Queued) Decision {
	if p, late := LateOf(q); late {
		return l.decideLate(q, p)
	}
	if row := l.ByID[q.OrderID]; row != nil {
		// The answer of an earlier commit was lost, or Redis has gone back to before that
		// answer. The hold of a closed or paid order is then released again.
		d := Decision{Queued: q, Order: row}
		switch {
		case row.Status.Closed():
			d.Hold = Release
		case row.Status == Paid && row.RestoredAt != nil:
			d.Hold = Reconfirm
		}
		return d
	}
	if q.Key != "" {
		if first := l.byKey[buyerKey{q.Buyer, q.Key}]; first != nil {
			d := Decision{Queued: q, Order: first, Hold: Release}
			if first.RequestHash != q.Fingerprint {
				d.Refused = Mismatch
			}
			return d
		}
	}
	switch {
	case !l.PastGate && l.Sale.TookOnPayment(q.Epoch):
		// A node with an old copy of the sale sent the order to the gate. Another node may
		// have refused its key since, because the gate does not know orders without units.
		return Decision{Queued: q, Hold: Release, Refused: Unavailable}
	case l.Window != "":
		return Decision{Queued: q, Refused: l.Window}
	case l.full(q.Buyer): // a row for each refusal would let one buyer make rows without end
		return Decision{Queued: q, Hold: Release, Refused: BuyerLimit}
	}
	o := l.newOrder(q)
	reason := l.room(q.Buyer, q.Quantity)
	switch {
	case reason != "" && l.PastGate: // no gate has taken units for the order, so it leaves no row
		return Decision{Queued: q, Refused: reason}
	case reason != "": // the row holds nothing, and the units are released as those of a closed order
		o.Status, o.Reason, o.ExpiresAt, o.ClosedAt = Rejected, reason, l.Now, &l.Now
	case !l.OnPayment:
		l.left -= q.Quantity
	}
	l.add(o)
	return Decision{Queued: q, Order: o, Action: Insert}
}

// room returns why a buyer cannot have so many more units, or "".
func (l *Ledger) room(buyer string, quantity int64) Reason {
	switch {
	case l.Held[buyer]+quantity > l.Sale.PerBuyerLimit:
		return BuyerLimit
	case quantity > l.left:
		return SoldOut
	}
	return ""
}

// newOrder returns the row of an order that is accepted.
func (l *Ledger) newOrder(q inventory.Queued) *Order {
	o := &Order{
		ID: q.OrderID, SKU: l.Sale.SKU, Buyer: q.Buyer, Quantity: q.Quantity,
		Amount: l.Sale.Price * q.Quantity, Currency: l.Sale.Currency,
		Status: PendingPayment, RequestHash: q.Fingerprint, CreatedAt: q.At,
		ExpiresAt: l.Now.Add(time.Duration(l.Sale.PaymentWindowS) * time.Second),
	}
	if q.Key != "" {
		o.IdempotencyKey = &q.Key
	}
	if l.OnPayment {
		l.awaitPayment(o)
	}
	return o
}
