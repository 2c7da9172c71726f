package orders

import (
	"math"
	"time"

	"flashsale/inventory"
)

// A Ledger contains the orders that matter for a batch of queued orders of one SKU. They are
// read under the lock of the sale's row. Decide adds each order of the batch that it inserts.
type Ledger struct {
	Sale  *Sale
	Now   time.Time // the database's time, read under the row lock
	left  int64     // units that are not sold
	ByID  map[string]*Order
	byKey map[buyerKey]*Order
	// Units is the number of units of a buyer's pending and paid orders. Not filled for a
	// buyer who has reached OrdersPerBuyer, unless a Payment needs it.
	Units map[string]int64
	// OrderCount is the number of orders that a buyer has made, of any status. A buyer with
	// OrdersPerBuyer orders is full and cannot make another.
	OrderCount     map[string]int64
	OrdersPerBuyer int64

	Claimed map[Payment]bool // payments with a refund claim

	WithoutGate bool   // no gate has accepted the orders
	OnPayment   bool   // the orders take no units until they are paid
	Window      Reason // NotOpen or Closed refuses orders and payments without a gate; "" while the sale is on
}

type buyerKey struct{ buyer, key string }

// NewLedger returns a Ledger with these rows. OrdersPerBuyer is unlimited.
func NewLedger(sale *Sale, now time.Time, rows []Order) *Ledger {
	l := &Ledger{
		Sale: sale, Now: now, left: sale.Total - sale.Sold,
		ByID: map[string]*Order{}, byKey: map[buyerKey]*Order{}, Units: map[string]int64{},
		OrderCount: map[string]int64{}, OrdersPerBuyer: math.MaxInt64,
		Claimed: map[Payment]bool{},
	}
	for i := range rows {
		l.add(&rows[i])
	}
	return l
}

// add is IndexOrder for an order that also counts for its buyer's limits.
func (l *Ledger) add(o *Order) {
	l.IndexOrder(o)
	l.OrderCount[o.Buyer]++
	if o.Status.CountsAsSold() {
		l.Units[o.Buyer] += o.Quantity
	}
}

// IndexOrder adds the order to ByID and to the orders by key.
func (l *Ledger) IndexOrder(o *Order) {
	l.ByID[o.ID] = o
	if o.IdempotencyKey != nil {
		l.byKey[buyerKey{o.Buyer, *o.IdempotencyKey}] = o
	}
}

// full reports whether the buyer has made OrdersPerBuyer orders.
func (l *Ledger) full(buyer string) bool { return l.OrderCount[buyer] >= l.OrdersPerBuyer }

// A Decision describes the outcome for one queued order.
type Decision struct {
	Queued  inventory.QueuedOrder
	Order   *Order // the row, new or existing; nil if there is none
	Action  Action
	Hold    HoldAction
	Claim   *Claim // the claim to record if Action is RecordClaim
	Refused Reason // if set, the caller receives this reason instead of Order
}

// Writes reports whether the decision changes a row.
func (d Decision) Writes() bool { return d.Action != NoChange || d.Hold == DropHoldAgain }

// An Action is the change that a decision makes to the order's row.
type Action int

// The actions.
const (
	NoChange    Action = iota // no change: Order, if set, is an existing row
	Insert                    // Order is inserted
	MarkPaid                  // Order was expired or awaiting payment, and becomes paid
	RecordClaim               // the payment is refused, and Claim is recorded
)

// A HoldAction is the change that a decision makes to the order's hold at the gate.
type HoldAction int

// The hold actions.
const (
	KeepHold      HoldAction = iota // no change
	ReleaseHold                     // the gate releases the units of the hold
	DropHoldAgain                   // the hold of a paid order has reappeared at the gate and is dropped again
)

// Decide returns the decision for one queued order. It may refuse an order that a gate has
// accepted, because Redis may have lost data. Even if Redis has lost nothing, Decide refuses such
// an order in four cases:
//
//   - An earlier order with its key has another fingerprint.
//   - The buyer has made OrdersPerBuyer orders.
//   - Orders of its epoch take no units until they are paid.
//   - An operator has since lowered the total or the buyer's limit.
func (l *Ledger) Decide(q inventory.QueuedOrder) Decision {
	if p, ok := PaymentOf(q); ok {
		return l.decidePayment(q, p)
	}
	if row := l.ByID[q.OrderID]; row != nil {
		// The order was committed before. Either the answer to that commit was lost, or
		// Redis has lost later writes, and may still have the hold of an ended order.
		d := Decision{Queued: q, Order: row}
		switch {
		case row.Status.Closed() && !row.Voided(): // a rebuild returns the units of an order that was taken back
			d.Hold = ReleaseHold
		case row.Status == Paid && row.RestoredAt != nil:
			d.Hold = DropHoldAgain
		}
		return d
	}
	if q.Key != "" {
		if first := l.byKey[buyerKey{q.Buyer, q.Key}]; first != nil {
			d := Decision{Queued: q, Order: first, Hold: ReleaseHold}
			if first.RequestHash != q.Fingerprint {
				d.Refused = Mismatch
			}
			return d
		}
	}
	switch {
	case !l.WithoutGate && l.Sale.TookOnPayment(q.Epoch):
		// A node with an old copy of the sale has sent the order to the gate. Another node
		// may have refused the key, because the gate does not know orders without units.
		return Decision{Queued: q, Hold: ReleaseHold, Refused: Unavailable}
	case l.Window != "":
		return Decision{Queued: q, Refused: l.Window}
	case l.full(q.Buyer): // no row, because one buyer could create rows without end
		return Decision{Queued: q, Hold: ReleaseHold, Refused: OrderLimit}
	}
	o := l.newOrder(q)
	reason := l.noRoomReason(q.Buyer, q.Quantity)
	switch {
	case reason != "" && l.WithoutGate: // no gate has taken units for the order, so it leaves no row
		return Decision{Queued: q, Refused: reason}
	case reason != "": // the keeper releases the units, as for a closed order
		o.Status, o.Reason, o.ExpiresAt, o.ClosedAt = Rejected, reason, l.Now, &l.Now
	case !l.OnPayment:
		l.left -= q.Quantity
	}
	l.add(o)
	return Decision{Queued: q, Order: o, Action: Insert}
}

// noRoomReason returns the reason for which the buyer cannot have quantity more units, or "".
func (l *Ledger) noRoomReason(buyer string, quantity int64) Reason {
	switch {
	case l.Units[buyer]+quantity > l.Sale.UnitsPerBuyer:
		return BuyerLimit
	case quantity > l.left:
		return SoldOut
	}
	return ""
}

// newOrder returns the row of an accepted order.
func (l *Ledger) newOrder(q inventory.QueuedOrder) *Order {
	o := &Order{
		ID: q.OrderID, SKU: l.Sale.SKU, Buyer: q.Buyer, Quantity: q.Quantity,
		Amount: l.Sale.Price * q.Quantity, Currency: l.Sale.Currency,
		Status: PendingPayment, RequestHash: q.Fingerprint, CreatedAt: q.AcceptedAt,
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
