package orders

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"flashsale/inventory"
)

// A Status is where an order stands.
//
//	reserved ──▶ pending_payment ──▶ paid
//	    │               ├──────────▶ cancelled
//	    ▼               └──────────▶ expired
//	 rejected                 (or paid late: expired ──▶ paid)
//
// A reserved order is in the gate and its queue only; all others are rows.
// Where a sale takes units on payment, an order begins as awaiting_payment, which callers
// see as pending_payment, and its way to paid is that of one paid late.
// Each arrow out of pending_payment is one conditional update: one of them wins.
// So is the one from expired to paid, which takes the units anew (shop/paylate.go).
type Status string

// The statuses.
const (
	Reserved        Status = "reserved"
	PendingPayment  Status = "pending_payment"
	AwaitingPayment Status = "awaiting_payment" // pending_payment to whoever asks; holds no units (late.go)
	Paid            Status = "paid"
	Cancelled       Status = "cancelled"
	Expired         Status = "expired"
	Rejected        Status = "rejected" // the gate let it in, the database had no room: the gate had lost data
)

// Which statuses mean what, for queries. A status that is in none of them holds
// nothing, and never gives units back.
var (
	OpenStatuses     = []Status{PendingPayment, Paid}               // count as sold
	ClosedStatuses   = []Status{Cancelled, Expired, Rejected}       // their units go, or have gone, back to sale
	FinalStatuses    = []Status{Paid, Cancelled, Expired, Rejected} // the gate is to hear of them
	PayLateStatuses  = []Status{Expired, AwaitingPayment}           // a payment takes units anew
	ExpiringStatuses = []Status{PendingPayment, AwaitingPayment}    // the time to pay ends them
)

// Closed tells whether the order's units go, or have gone, back to sale.
func (s Status) Closed() bool { return slices.Contains(ClosedStatuses, s) }

// Open tells whether the order counts as sold.
func (s Status) Open() bool { return slices.Contains(OpenStatuses, s) }

// PayLate tells whether a payment has to take the order's units anew.
func (s Status) PayLate() bool { return slices.Contains(PayLateStatuses, s) }

// shown is the status as callers see it.
func (s Status) shown() Status {
	if s == AwaitingPayment {
		return PendingPayment
	}
	return s
}

// PaidBy tells whether the order is paid, and by this payment.
func (o *Order) PaidBy(ref string) bool {
	return o.Status == Paid && o.PaymentRef != nil && *o.PaymentRef == ref
}

// An Order is one row. Amount is in minor units of Currency.
type Order struct {
	ID             string `gorm:"primaryKey"`
	SKU            string `gorm:"column:sku"`
	Buyer          string
	Quantity       int64
	Amount         int64
	Currency       string
	Status         Status
	Reason         Reason // of a rejected order
	IdempotencyKey *string
	RequestHash    string
	PaymentRef     *string
	CreatedAt      time.Time `gorm:"autoCreateTime:false"` // when it was reserved, by Redis's clock
	ExpiresAt      time.Time // by the database's clock, like the rest
	PaidAt         *time.Time
	ClosedAt       *time.Time
	RestoredAt     *time.Time // the gate knows of the end: it has released the units, or dropped the hold of a paid order. An order that awaits payment has no units and is created so
	HoldID         *string    // of an order that was paid late, or awaits payment: the gate's hold of it (shop/paylate.go)
	Claims         int64      // refunds recorded of it (late.go)
}

// TableName is for gorm.
func (Order) TableName() string { return "orders" }

// OrderJSON is an order as openapi.yaml says.
type OrderJSON struct {
	ID        string `json:"id"`
	SKU       string `json:"sku"`
	Buyer     string `json:"buyer"`
	Quantity  int64  `json:"quantity"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
	Status    Status `json:"status"`
	Reason    Reason `json:"reason,omitempty"`
	CreatedAt *stamp `json:"created_at"`
	ExpiresAt *stamp `json:"expires_at"`
	PaidAt    *stamp `json:"paid_at"`
	ClosedAt  *stamp `json:"closed_at"`
}

// RowJSON is an order as operators see it.
type RowJSON struct {
	OrderJSON
	Key *string `json:"idempotency_key"`
}

// JSON is the order as callers see it. The row itself has more than they may know.
func (o *Order) JSON() OrderJSON {
	return OrderJSON{
		ID: o.ID, SKU: o.SKU, Buyer: o.Buyer, Quantity: o.Quantity, Amount: o.Amount, Currency: o.Currency,
		Status: o.Status.shown(), Reason: o.Reason,
		CreatedAt: stampOf(&o.CreatedAt), ExpiresAt: stampOf(&o.ExpiresAt),
		PaidAt: stampOf(o.PaidAt), ClosedAt: stampOf(o.ClosedAt),
	}
}

// stamp is a time as the API writes it: RFC 3339, UTC, milliseconds.
type stamp time.Time

func stampOf(t *time.Time) *stamp {
	if t == nil || t.IsZero() {
		return nil
	}
	return (*stamp)(t)
}

func (s stamp) MarshalJSON() ([]byte, error) {
	const layout = `"2006-01-02T15:04:05.000Z"`
	return time.Time(s).UTC().AppendFormat(make([]byte, 0, len(layout)), layout), nil
}

// UnmarshalJSON reads a time as clients of the API do.
func (s *stamp) UnmarshalJSON(text []byte) error { return (*time.Time)(s).UnmarshalJSON(text) }

// IsSKU tells whether s can name a sale: 1 to 64 of A-Z a-z 0-9 . _ -
func IsSKU(s string) bool { return isName(s, "._-") }

// IsBuyer tells whether s can name a buyer: as a SKU, or with colons.
func IsBuyer(s string) bool { return isName(s, "._-:") }

// isName tells whether s has 1 to 64 characters, all of them letters, digits or marks.
func isName(s, marks string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(marks, r))
	})
}

// IsOrderID tells whether s can be the id of an order: a UUID in the form in
// which this package writes it. Anything else is not worth a question, and
// what is not ASCII would be an error of the database.
func IsOrderID(s string) bool {
	return len(s) == 36 && uuid.Validate(s) == nil && strings.ToLower(s) == s
}

// VisibleASCII reports whether s has 1 to limit characters from ! to ~.
func VisibleASCII(s string, limit int) bool {
	return s != "" && len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool { return r < '!' || r > '~' })
}

// Hold is what the gate has of a pending order.
func (o *Order) Hold() inventory.Hold {
	return inventory.Hold{OrderID: o.ID, Buyer: o.Buyer, Quantity: o.Quantity, At: o.CreatedAt}
}

// Fingerprint tells one order from another under the same key.
func Fingerprint(sku string, quantity int64) string {
	sum := sha256.Sum256(append([]byte(sku+"\n"), strconv.FormatInt(quantity, 10)...))
	return hex.EncodeToString(sum[:16])
}
