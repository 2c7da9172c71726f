package orders

import (
	"encoding/json"
	"errors"
	"time"

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
// Where a sale takes units on payment, an order begins as unheld, which callers
// see as pending_payment, and its way to paid is that of one paid late.
// Each arrow out of pending_payment is one conditional update: one of them wins.
// So is the one from expired to paid, which takes the units anew (late.go).
type Status string

// The statuses.
const (
	Reserved       Status = "reserved"
	PendingPayment Status = "pending_payment"
	Unheld         Status = "unheld" // pending_payment to whoever asks; holds no units (unheld.go)
	Paid           Status = "paid"
	Cancelled      Status = "cancelled"
	Expired        Status = "expired"
	Rejected       Status = "rejected" // the gate let it in, the database had no room: the gate had lost data
)

// Closed tells whether the order's units go, or have gone, back to sale.
func (s Status) Closed() bool { return s == Cancelled || s == Expired || s == Rejected }

// Open tells whether the order counts as sold.
func (s Status) Open() bool { return s == PendingPayment || s == Paid }

// shown is the status as callers see it.
func (s Status) shown() Status {
	if s == Unheld {
		return PendingPayment
	}
	return s
}

// paidBy tells whether the order is paid, and by this payment.
func (o *Order) paidBy(ref string) bool {
	return o.Status == Paid && o.PaymentRef != nil && *o.PaymentRef == ref
}

// closedStatuses for queries.
var closedStatuses = []Status{Cancelled, Expired, Rejected}

// An Order is one row. Amount is in minor units of Currency.
type Order struct {
	ID             string `gorm:"primaryKey"`
	SKU            string `gorm:"column:sku"`
	Buyer          string
	Quantity       int64
	Amount         int64
	Currency       string
	Status         Status
	Reason         string // of a rejected order: a problem code
	IdempotencyKey *string
	RequestHash    string
	PaymentRef     *string
	CreatedAt      time.Time `gorm:"autoCreateTime:false"` // when it was reserved, by Redis's clock
	ExpiresAt      time.Time // by the database's clock, like the rest
	PaidAt         *time.Time
	ClosedAt       *time.Time
	RestoredAt     *time.Time // the gate knows of the end: units given back, or the hold of a paid order dropped. An unheld order is born so: it has none to give back
	HoldID         *string    // of an order that was paid late, or unheld: the gate's hold of it (late.go)
}

// TableName is for gorm.
func (Order) TableName() string { return "orders" }

// reasons are why the database rejects what the gate has let in, and what the
// caller hears.
var reasons = map[string]error{
	"sold_out":             inventory.ErrSoldOut,
	"buyer_limit":          inventory.ErrBuyerLimit,
	"idempotency_mismatch": inventory.ErrMismatch,
	"closed":               inventory.ErrClosed,
	"not_open":             inventory.ErrNotOpen,
	"unavailable":          ErrUnavailable,
}

func reasonError(reason string) error {
	if err, ok := reasons[reason]; ok {
		return err
	}
	return errors.New("orders: rejected: " + reason)
}

// orderJSON is an order as API.md has it.
type orderJSON struct {
	ID        string `json:"id"`
	SKU       string `json:"sku"`
	Buyer     string `json:"buyer"`
	Quantity  int64  `json:"quantity"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
	Status    Status `json:"status"`
	Reason    string `json:"reason,omitempty"`
	CreatedAt *stamp `json:"created_at"`
	ExpiresAt *stamp `json:"expires_at"`
	PaidAt    *stamp `json:"paid_at"`
	ClosedAt  *stamp `json:"closed_at"`
}

// rowJSON is an order as operators see it.
type rowJSON struct {
	orderJSON
	Key *string `json:"idempotency_key"`
}

func (o *Order) json() orderJSON {
	return orderJSON{
		ID: o.ID, SKU: o.SKU, Buyer: o.Buyer, Quantity: o.Quantity, Amount: o.Amount, Currency: o.Currency,
		Status: o.Status.shown(), Reason: o.Reason,
		CreatedAt: stampOf(&o.CreatedAt), ExpiresAt: stampOf(&o.ExpiresAt),
		PaidAt: stampOf(o.PaidAt), ClosedAt: stampOf(o.ClosedAt),
	}
}

// MarshalJSON writes the order as API.md has it.
func (o *Order) MarshalJSON() ([]byte, error) { return json.Marshal(o.json()) }

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

// isSKU tells whether s can name a sale: 1 to 64 of A-Z a-z 0-9 . _ -
func isSKU(s string) bool { return isName(s, false) }

// isBuyer tells whether s can name a buyer: as a SKU, or with colons.
func isBuyer(s string) bool { return isName(s, true) }

func isName(s string, colons bool) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		case c == ':' && colons:
		default:
			return false
		}
	}
	return 1 <= len(s) && len(s) <= 64
}

// isOrderID tells whether s can be the id of an order: a UUID in the form in
// which this package writes it. Anything else is not worth a question, and
// what is not ASCII would be an error of the database.
func isOrderID(s string) bool {
	for i := range len(s) {
		c := s[i]
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (c == '-') {
			return false
		} else if !dash && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 36
}

// visibleASCII tells whether s has 1 to most characters from ! to ~.
func visibleASCII(s string, most int) bool {
	if len(s) == 0 || len(s) > most {
		return false
	}
	for i := range len(s) {
		if s[i] < '!' || s[i] > '~' {
			return false
		}
	}
	return true
}
