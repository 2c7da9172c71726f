package orders

import (
	"time"

	"flashsale/inventory"
)

// A LatePayment is a payment of an order that has expired, or awaits payment.
type LatePayment struct{ Order, Ref string }

// LateOf tells whether a queued order is the attempt of a late payment.
func LateOf(q inventory.Queued) (p LatePayment, late bool) {
	return LatePayment{q.Pays, q.Key}, q.Pays != ""
}

// decideLate decides on the attempt of a late payment. Its hold either becomes
// that of the paid order, or goes back.
func (l *Ledger) decideLate(q inventory.Queued, p LatePayment) Decision {
	row := l.ByID[p.Order]
	v := Decision{Queued: q, Order: row, Hold: GiveBack}
	switch {
	case row == nil || row.Status == PendingPayment: // expired orders do not go away, nor back
		v.Refused = Unavailable
	case row.HoldID != nil && *row.HoldID == q.OrderID:
		// This attempt, seen again: it has paid, and its hold is dropped, not
		// given back.
		v.Hold = Keep
		if row.RestoredAt != nil {
			v.Hold = Reconfirm
		}
	case l.Refunded[p]:
		v.Refused = OrderClosed
	case row.PaidBy(p.Ref): // another attempt of the same payment has
	case row.Status == Paid:
		v.Refused = AlreadyPaid
	case row.Claims >= MaxClaims:
		v.Refused = OrderClosed
	default:
		reason := l.fits(row)
		if reason != "" && row.Status == AwaitingPayment && l.PastGate {
			v.Refused = reason // the payer waits, and no queue has the same payment: an old one is dropped
			return v
		}
		if reason != "" {
			v.Action, v.Refused, v.Refund = Owe, OrderClosed, NewRefund(row, p.Ref, reason, l.Now)
			l.Refunded[p] = true
			row.Claims++
			return v
		}
		v.Action, v.Hold = PayLate, Keep
		l.left -= row.Quantity
		l.Held[row.Buyer] += row.Quantity
		row.Status, row.PaymentRef, row.HoldID = Paid, &p.Ref, &q.OrderID
		row.ClosedAt, row.RestoredAt = nil, nil
	}
	return v
}

// fits tells why an order cannot be paid anew, "" when it can. Only one whose
// units are known to be back may take as many again: else they would be taken
// once and given back twice.
func (l *Ledger) fits(o *Order) Reason {
	switch {
	case !o.Status.PayLate():
		return Reason(o.Status)
	case o.RestoredAt == nil:
		return NotReleased
	case l.Window != "":
		return l.Window
	case l.Held[o.Buyer]+o.Quantity > l.Sale.PerBuyerLimit:
		return BuyerLimit
	case o.Quantity > l.left:
		return SoldOut
	}
	return ""
}

// A Refund is a claim: somebody has reported a payment of a closed order, so money
// may be due back. Whoever holds the money checks it. There is one for each order
// and payment reference. Not for each reference alone: that is the payer's word,
// and one who uses it for two orders may be owed for both. An order has at most
// ten: a payer can invent references without end.
//
// A payment is taken or refunded, never both: either is decided under the
// sale's row lock by who has looked for the other first. And a refund is for
// good: its reference stays refused, whatever comes back to sale later. So does
// every further reference of an order that has ten.
type Refund struct {
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
func (Refund) TableName() string { return "refunds" }

// MaxClaims is how many refunds of one order are recorded.
const MaxClaims = 10

func NewRefund(o *Order, ref string, reason Reason, now time.Time) *Refund {
	return &Refund{
		OrderID: o.ID, PaymentRef: ref, SKU: o.SKU, Buyer: o.Buyer,
		Amount: o.Amount, Currency: o.Currency, Reason: reason, CreatedAt: now,
	}
}

// RefundJSON is a refund as openapi.yaml says.
type RefundJSON struct {
	*Refund
	CreatedAt stamp `json:"created_at"`
}

func (r *Refund) JSON() RefundJSON { return RefundJSON{r, stamp(r.CreatedAt)} }
