package orders

import (
	"time"

	"flashsale/inventory"
)

// A sale with ReserveOn OnPayment takes no units for an order, only for its payment.
// Such an order needs no gate. It is a row, which any node inserts under the sale's row
// lock, with the keeper's decision, for all buyers of the same moment together. Its
// status is awaiting_payment, which callers see as pending_payment. Sums over the units
// of open orders do not find it. It has no units to release, so it counts as released.
//
// Its payment takes the path of a payment after expiry (shop/paylate.go): gate, queue, keeper.
// There is one difference: a rejection leaves the order open and creates no refund claim,
// because a payer charges the buyer only after the acceptance. If the database rejects a
// payment that a gate accepted, or may have accepted before Redis was lost, a refund claim
// is recorded. The payer may not receive the rejection, and a repetition of the payment
// must not be accepted.
//
// An order is refused if no units are left at that moment. When it is paid, there may be
// none left. Unpaid orders do not count, and the buyer's limit ignores them, too.
//
// A sale may change to OnPayment at any time. Its orders take units until the gate has
// been replaced (orders.Sale.TakesOnPayment), because the gate does not know the keys of
// orders without units, and would refuse their replays.

// A LatePayment is a payment of an order that has expired, or awaits payment.
type LatePayment struct{ Order, Ref string }

// LateOf returns the late payment that a queued order is an attempt of, and reports whether
// it is one.
func LateOf(q inventory.Queued) (p LatePayment, late bool) {
	return LatePayment{q.Pays, q.Key}, q.Pays != ""
}

// decideLate decides on the attempt of a late payment. Its hold either becomes
// that of the paid order, or is released.
func (l *Ledger) decideLate(q inventory.Queued, p LatePayment) Decision {
	row := l.ByID[p.Order]
	d := Decision{Queued: q, Order: row, Hold: Release}
	switch {
	case row == nil || row.Status == PendingPayment: // an expired order is neither deleted nor reopened
		d.Refused = Unavailable
	case row.HoldID != nil && *row.HoldID == q.OrderID:
		// This attempt has paid before. Its hold is dropped, and its units are not released.
		d.Hold = Keep
		if row.RestoredAt != nil {
			d.Hold = Reconfirm
		}
	case l.Claimed[p]:
		d.Refused = OrderClosed
	case row.PaidBy(p.Ref): // by another attempt of the same payment
	case row.Status == Paid:
		d.Refused = AlreadyPaid
	case row.Claims >= MaxClaims:
		d.Refused = OrderClosed
	default:
		reason := l.payable(row)
		switch {
		case reason == "":
			d.Action, d.Hold = PayLate, Keep
			l.left -= row.Quantity
			l.Held[row.Buyer] += row.Quantity
			row.Status, row.PaymentRef, row.HoldID = Paid, &p.Ref, &q.OrderID
			row.ClosedAt, row.RestoredAt = nil, nil
		case row.Status == AwaitingPayment && l.PastGate:
			d.Refused = reason // the payer waits, and no queue has the same payment: an old queue is dropped
		default:
			d.Action, d.Refused, d.Claim = RecordClaim, OrderClosed, NewClaim(row, p.Ref, reason, l.Now)
			l.Claimed[p] = true
			row.Claims++
		}
	}
	return d
}

// payable returns why an order cannot be paid anew, or "". An expired order can be paid only
// after its first hold has been released. Otherwise that release would return units that the
// payment has just taken.
func (l *Ledger) payable(o *Order) Reason {
	switch {
	case !o.Status.PayLate():
		return Reason(o.Status)
	case o.RestoredAt == nil:
		return NotReleased
	case l.Window != "":
		return l.Window
	}
	return l.room(o.Buyer, o.Quantity)
}

// awaitPayment makes o an order that takes no units until it is paid. Paying takes units,
// and needs a sale that has not ended.
func (l *Ledger) awaitPayment(o *Order) {
	o.Status, o.RestoredAt = AwaitingPayment, &l.Now
	if o.ExpiresAt.After(l.Sale.ClosesAt) {
		o.ExpiresAt = l.Sale.ClosesAt
	}
}

// A Claim is a claim for a refund: a payment of a closed order was reported, so money may be
// due back. Whoever holds the money checks it. There is one claim for each order and payment
// reference, because the payer chooses the reference and may use it for two orders.
//
// A payment is either taken or claimed. Both are decided under the sale's row lock, after a
// look for the other. A claim is final: its reference stays refused, whatever is released
// later. So does every further reference of an order that has MaxClaims claims.
type Claim struct {
	PaymentRef string    `gorm:"primaryKey" json:"payment_ref"`
	OrderID    string    `gorm:"primaryKey" json:"order_id"`
	SKU        string    `gorm:"column:sku" json:"sku"`
	Buyer      string    `json:"buyer"`
	Amount     int64     `json:"amount"` // minor units of Currency
	Currency   string    `json:"currency"`
	Reason     Reason    `json:"reason"`                        // why the payment was not taken
	CreatedAt  time.Time `gorm:"autoCreateTime:false" json:"-"` // by the database's clock
}

// TableName is for gorm.
func (Claim) TableName() string { return "refunds" }

// MaxClaims bounds the claims of one order, because a payer can invent references without end.
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

// JSON returns the claim as callers see it.
func (r *Claim) JSON() ClaimJSON { return ClaimJSON{r, stamp(r.CreatedAt)} }
