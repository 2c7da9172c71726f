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

// A Status is the state of an order.
//
//	reserved ──▶ pending_payment ──▶ paid
//	    │               ├──────────▶ cancelled (or taken back by an operator: paid ──▶ cancelled)
//	    ▼               └──────────▶ expired
//	 rejected                 (or paid late: expired ──▶ paid)
//
// A reserved order exists only at the gate and in its queue. An order in any other status is
// a row. Each arrow between rows is one conditional update, so exactly one of several
// concurrent updates succeeds. The update from expired to paid takes the units a second time.
//
// If the sale takes units on payment, an order begins as awaiting_payment, and its payment
// takes the units. The API shows awaiting_payment as pending_payment.
type Status string

// The statuses.
const (
	Reserved        Status = "reserved"
	PendingPayment  Status = "pending_payment"
	AwaitingPayment Status = "awaiting_payment" // shown as pending_payment; the order has no units (payment.go)
	Paid            Status = "paid"
	Cancelled       Status = "cancelled"
	Expired         Status = "expired"
	Rejected        Status = "rejected" // the gate accepted the order, and the database refused it: sold_out or buyer_limit
)

// Sets of statuses, for queries of rows. A row has units only if its status is in SoldStatuses.
var (
	SoldStatuses          = []Status{PendingPayment, Paid}               // the order counts as sold
	ClosedStatuses        = []Status{Cancelled, Expired, Rejected}       // the units are released, or have been released
	NoHoldStatuses        = []Status{Paid, Cancelled, Expired, Rejected} // the gate must remove the hold
	MustTakeUnitsStatuses = []Status{Expired, AwaitingPayment}           // a payment must take the units first
	ExpiringStatuses      = []Status{PendingPayment, AwaitingPayment}    // the order can expire
)

// Closed reports whether the order's units are released, or have been released.
func (s Status) Closed() bool { return slices.Contains(ClosedStatuses, s) }

// CountsAsSold reports whether the order counts as sold.
func (s Status) CountsAsSold() bool { return slices.Contains(SoldStatuses, s) }

// MustTakeUnits reports whether a payment of the order must take its units first.
func (s Status) MustTakeUnits() bool { return slices.Contains(MustTakeUnitsStatuses, s) }

// shown returns the status that the API shows.
func (s Status) shown() Status {
	if s == AwaitingPayment {
		return PendingPayment
	}
	return s
}

// PaidBy reports whether the payment ref has paid the order.
func (o *Order) PaidBy(ref string) bool {
	return o.Status == Paid && o.PaymentRef != nil && *o.PaymentRef == ref
}

// Voided reports whether Store.Void has taken the order back. Only such an order is cancelled and
// has the reference of a payment.
func (o *Order) Voided() bool { return o.Status == Cancelled && o.PaymentRef != nil }

// An Order is a row of the table orders. Amount is in minor units of Currency.
type Order struct {
	ID             string `gorm:"primaryKey"`
	SKU            string `gorm:"column:sku"`
	Buyer          string
	Quantity       int64
	Amount         int64
	Currency       string
	Status         Status
	Reason         Reason // why the order was rejected
	IdempotencyKey *string
	RequestHash    string
	PaymentRef     *string
	CreatedAt      time.Time `gorm:"autoCreateTime:false"` // when the gate accepted the order, by Redis's clock; without a gate, the database's time
	ExpiresAt      time.Time // the database's time, as in the fields below
	PaidAt         *time.Time
	ClosedAt       *time.Time
	// RestoredAt is set once the gate has released the units of a closed order, or dropped
	// the hold of a paid order. An order that awaits payment has no units, so RestoredAt is
	// set when the order is created.
	RestoredAt *time.Time
	HoldID     *string // hold of the payment that took the units and paid the order (NewHoldID)
	Claims     int64   // number of refund claims for the order
}

// TableName returns the name of the table, for gorm.
func (Order) TableName() string { return "orders" }

// OrderJSON is an order in the form of openapi.yaml.
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

// RowJSON is an order in the form that operators receive.
type RowJSON struct {
	OrderJSON
	Key *string `json:"idempotency_key"`
}

// Row returns the order in the form that operators receive.
func (o *Order) Row() RowJSON { return RowJSON{o.JSON(), o.IdempotencyKey} }

// JSON returns the order in the form of the API. It omits the columns that buyers must not
// see.
func (o *Order) JSON() OrderJSON {
	return OrderJSON{
		ID: o.ID, SKU: o.SKU, Buyer: o.Buyer, Quantity: o.Quantity, Amount: o.Amount, Currency: o.Currency,
		Status: o.Status.shown(), Reason: o.Reason,
		CreatedAt: stampOf(&o.CreatedAt), ExpiresAt: stampOf(&o.ExpiresAt),
		PaidAt: stampOf(o.PaidAt), ClosedAt: stampOf(o.ClosedAt),
	}
}

// stamp is a time in the format of the API: RFC 3339 in UTC, with milliseconds.
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

// UnmarshalJSON is for clients of the API.
func (s *stamp) UnmarshalJSON(text []byte) error { return (*time.Time)(s).UnmarshalJSON(text) }

// IsSKU reports whether s is a valid SKU: 1 to 64 characters of A-Z a-z 0-9 . _ -
func IsSKU(s string) bool { return isName(s, "._-") }

// IsBuyer reports whether s is a valid buyer: 1 to 64 characters of A-Z a-z 0-9 . _ - :
func IsBuyer(s string) bool { return isName(s, "._-:") }

// isName reports whether s has 1 to 64 characters: ASCII letters, digits and characters of
// marks.
func isName(s, marks string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(marks, r))
	})
}

// IsOrderID reports whether s is a UUID in the form of NewOrderID. Callers check an id from
// a request before they query, because a comparison with non-ASCII text is an error in MySQL.
func IsOrderID(s string) bool {
	return len(s) == 36 && uuid.Validate(s) == nil && strings.ToLower(s) == s
}

// VisibleASCII reports whether s has 1 to limit characters from ! to ~.
func VisibleASCII(s string, limit int) bool {
	return s != "" && len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool { return r < '!' || r > '~' })
}

// Hold returns the hold that the gate must have for the order while it is pending.
func (o *Order) Hold() inventory.Hold {
	return inventory.Hold{OrderID: o.ID, Buyer: o.Buyer, Quantity: o.Quantity, AcceptedAt: o.CreatedAt}
}

// Fingerprint returns a hash of what is ordered. If a request has the key of an earlier
// order but another fingerprint, it is refused.
func Fingerprint(sku string, quantity int64) string {
	sum := sha256.Sum256(append([]byte(sku+"\n"), strconv.FormatInt(quantity, 10)...))
	return hex.EncodeToString(sum[:16])
}
