package orders

import (
	"time"
)

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

// NewRefund returns the claim for a payment that was not taken.
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

// JSON returns the refund as the API shows it.
func (r *Refund) JSON() RefundJSON { return RefundJSON{r, stamp(r.CreatedAt)} }
