package orders

import (
	"time"

	"flashsale/inventory"
)

// A sale with ReserveOn OnPayment takes no units for an order, only for its payment.
//
// Such an order needs no gate. Any node inserts its row under the lock of the sale's row, in
// a transaction that concurrent buyers share, and Ledger.Decide decides. The status is
// awaiting_payment. The order does not count as sold, and it has no units to release, so it
// is inserted as released. It is refused if no units are left, but it does not set any aside:
// when the buyer pays, there may be none left. Nor does it count for the limit per buyer.
//
// The payment takes the units, as a payment after the expiry of its order does: it passes
// through gate, queue and keeper. There is one difference. If the payment is refused, the order
// stays open and no claim is recorded, because the payer charges the buyer only after the
// acceptance. If the database refuses a payment that a gate has accepted, or may have accepted
// before Redis was lost, a claim is recorded: the payer may not receive the refusal, and a
// repetition must not be accepted.
//
// A sale may change to OnPayment at any time. See Sale.TakesOnPayment.

// A Payment is a payment that must take the units of its order first, because the order has
// expired or awaits payment.
type Payment struct{ OrderID, Ref string }

// PaymentOf reports whether q is an attempt of such a payment, and returns the payment.
func PaymentOf(q inventory.QueuedOrder) (p Payment, ok bool) {
	return Payment{q.PaysOrder, q.Key}, q.PaysOrder != ""
}

// decidePayment returns the decision for an attempt of a payment. If the attempt pays the
// order, the order keeps its hold. Otherwise the hold is released.
func (l *Ledger) decidePayment(q inventory.QueuedOrder, p Payment) Decision {
	row := l.ByID[p.OrderID]
	d := Decision{Queued: q, Order: row, Hold: ReleaseHold}
	switch {
	case row == nil || row.Status == PendingPayment: // an expired order is neither deleted nor reopened
		d.Refused = Unavailable
	case row.HoldID != nil && *row.HoldID == q.OrderID:
		// This attempt has paid the order. The keeper drops its hold and keeps the units.
		d.Hold = KeepHold
		if row.RestoredAt != nil {
			d.Hold = DropHoldAgain
		}
	case l.Claimed[p]:
		d.Refused = OrderClosed
	case row.PaidBy(p.Ref): // another attempt of the same payment has paid the order
	case row.Status == Paid:
		d.Refused = AlreadyPaid
	case row.Claims >= MaxClaims:
		d.Refused = OrderClosed
	default:
		reason := l.payable(row)
		switch {
		case reason == "":
			d.Action, d.Hold = MarkPaid, KeepHold
			l.left -= row.Quantity
			l.Units[row.Buyer] += row.Quantity
			row.Status, row.PaymentRef, row.HoldID = Paid, &p.Ref, &q.OrderID
			row.ClosedAt, row.RestoredAt = nil, nil
		case row.Status == AwaitingPayment && l.WithoutGate:
			d.Refused = reason // no claim: the payer receives the refusal, and no queue has another attempt
		default:
			d.Action, d.Refused, d.Claim = RecordClaim, OrderClosed, NewClaim(row, p.Ref, reason, l.Now)
			l.Claimed[p] = true
			row.Claims++
		}
	}
	return d
}

// payable returns the reason for which the order cannot take its units and be paid, or "". An
// expired order can be paid only after its first hold has been released. Otherwise that release
// would put units on sale that the payment has just taken.
func (l *Ledger) payable(o *Order) Reason {
	switch {
	case !o.Status.MustTakeUnits():
		return Reason(o.Status)
	case o.RestoredAt == nil:
		return NotReleased
	case l.Window != "":
		return l.Window
	}
	return l.noRoomReason(o.Buyer, o.Quantity)
}

// awaitPayment makes o an order that takes no units until it is paid. The order expires with
// the sale, because its payment cannot take units afterwards.
func (l *Ledger) awaitPayment(o *Order) {
	o.Status, o.RestoredAt = AwaitingPayment, &l.Now
	if o.ExpiresAt.After(l.Sale.ClosesAt) {
		o.ExpiresAt = l.Sale.ClosesAt
	}
}

// A Charge is what the payer reports to have charged. A field is nil if it is not reported.
type Charge struct {
	Amount   *int64 // minor units of the currency
	Currency *string
}

// Check records the invalid fields of the charge.
func (c Charge) Check(f *Fields) {
	if c.Amount != nil {
		f.Check(*c.Amount >= 0, "amount", "must be 0 or more minor units")
	}
	if c.Currency != nil {
		f.checkCurrency(*c.Currency)
	}
}

// Matches reports whether the order has the amount and the currency that are reported. The two do
// not change after the order is placed.
func (c Charge) Matches(o *Order) bool {
	return (c.Amount == nil || *c.Amount == o.Amount) && (c.Currency == nil || *c.Currency == o.Currency)
}

// A Claim is a claim for a refund: a reported payment was refused, or an operator has taken the
// paid order back, so the buyer's money may be due back. The service moves no money. There is one
// claim for each order and payment reference, because the payer chooses the reference and may use
// it for two orders.
//
// A payment either pays an order or has a claim, never both, unless the order is taken back. The
// lock of the sale's row covers the decision. Row locks of a Galera cluster are local to one
// master, so both transactions also write the order's row, and the cluster rolls back one of them.
// A claim is final: its reference stays refused, even if units are released later. An order with
// MaxClaims claims refuses every further reference.
type Claim struct {
	PaymentRef string    `gorm:"primaryKey" json:"payment_ref"`
	OrderID    string    `gorm:"primaryKey" json:"order_id"`
	SKU        string    `gorm:"column:sku" json:"sku"`
	Buyer      string    `json:"buyer"`
	Amount     int64     `json:"amount"` // minor units of Currency
	Currency   string    `json:"currency"`
	Reason     Reason    `json:"reason"`                        // why the payment was refused
	CreatedAt  time.Time `gorm:"autoCreateTime:false" json:"-"` // the database's time
}

// TableName returns the name of the table, for gorm.
func (Claim) TableName() string { return "refunds" }

// MaxClaims is the maximum number of claims for refused payments of one order. A payer could
// otherwise create rows without end by inventing references.
const MaxClaims = 10

// NewClaim returns the claim for a payment of o that was refused for that reason.
func NewClaim(o *Order, ref string, reason Reason, now time.Time) *Claim {
	return &Claim{
		OrderID: o.ID, PaymentRef: ref, SKU: o.SKU, Buyer: o.Buyer,
		Amount: o.Amount, Currency: o.Currency, Reason: reason, CreatedAt: now,
	}
}

// ClaimJSON is a claim in the form of openapi.yaml.
type ClaimJSON struct {
	*Claim
	CreatedAt stamp `json:"created_at"`
}

// JSON returns the claim in the form of the API.
func (r *Claim) JSON() ClaimJSON { return ClaimJSON{r, stamp(r.CreatedAt)} }
