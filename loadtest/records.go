package loadtest

import (
	"strconv"
	"time"
)

// Kind is why a client asked.
type Kind string

const (
	First  Kind = "first"  // a buyer's first order
	Replay Kind = "replay" // a known key again, same body
	Second Kind = "second" // a buyer who already ordered, under a new key
	Retry  Kind = "retry"  // the same key again, because the outcome was unknown
	Fresh  Kind = "fresh"  // a new buyer after the attack, for what is left
	Lookup Kind = "lookup" // GET on the Location of a 202
)

// Statuses of an order, as in the contract.
const (
	Reserved  = "reserved"
	Pending   = "pending_payment"
	Paid      = "paid"
	Cancelled = "cancelled"
	Expired   = "expired"
	Rejected  = "rejected"
)

// Order is what the verdict reads of an order in an answer.
type Order struct {
	ID        string    `json:"id"`
	SKU       string    `json:"sku"`
	Buyer     string    `json:"buyer"`
	Quantity  int       `json:"quantity"`
	Status    string    `json:"status"`
	ExpiresAt time.Time `json:"expires_at"`
	PaidAt    time.Time `json:"paid_at"`   // zero while unpaid
	ClosedAt  time.Time `json:"closed_at"` // zero while open
}

// Row is one stored order as an operator sees it.
type Row struct {
	Order
	Key string `json:"idempotency_key"`
}

// Audit is the sale's conservation law, as the server states it. All counts
// are units.
type Audit struct {
	SKU       string `json:"sku"`
	Total     int    `json:"total"`
	Available int    `json:"available"`
	Held      int    `json:"held"`
	Sold      int    `json:"sold"`
	Paid      int    `json:"paid"`
	Pending   int    `json:"pending"`
	Restoring int    `json:"restoring"`
	Oversold  int    `json:"oversold"`
	Drift     int    `json:"drift"`
	Balanced  bool   `json:"balanced"`
}

// Answer is what one client heard. Status 0 means nothing: a timeout, a broken
// connection or half an answer.
type Answer struct {
	Status     int
	Code       string        // the problem's code
	Order      *Order        // nil unless the answer held one
	Replayed   bool          // Idempotent-Replayed: true
	Location   string        // of 201 and 202
	RetryAfter time.Duration // 0: not said
	Fault      string        // how the answer breaks the contract by itself
}

// reason is status and code: "409 sold_out". A yes that was said before is told
// apart: it is no other order.
func (a Answer) reason() string {
	switch {
	case a.Code != "":
		return strconv.Itoa(a.Status) + " " + a.Code
	case a.Replayed:
		return strconv.Itoa(a.Status) + " replayed"
	}
	return strconv.Itoa(a.Status)
}

// Request is one attempt to order, or a look at what became of it.
type Request struct {
	Kind     Kind
	Attack   bool // sent by vegeta: counted in attempts, answers, rates and latency
	Buyer    string
	Key      string
	Quantity int
	Sent     time.Time
	Latency  time.Duration
	Answer
}

// End is when the answer was complete, or given up.
func (r Request) End() time.Time { return r.Sent.Add(r.Latency) }

// announces says whether the client now holds the server's word that the
// order is stored: a 201, or a 202 followed until it was.
func (r Request) announces() bool {
	if r.Order == nil || r.Order.ID == "" {
		return false
	}
	if r.Kind == Lookup {
		return r.Status == 200 && r.Order.Status != Reserved && r.Order.Status != Rejected
	}
	return r.Status == 201
}

// refuses says whether the answer is a final no.
func (r Request) refuses() bool {
	if r.Kind == Lookup {
		return r.Status == 200 && r.Order != nil && r.Order.Status == Rejected
	}
	return r.Status >= 300 && r.Status < 500
}

// limited is a no from the limiter: it says that this request was not tried,
// and nothing about an earlier one under the same key.
func (r Request) limited() bool { return r.Status == 429 }

// Closing is one call to cancel or pay an order.
type Closing struct {
	Cancel  bool // false: pay
	OrderID string
	Buyer   string
	Sent    time.Time
	Latency time.Duration
	Answer
}

// End is when the answer was complete, or given up.
func (c Closing) End() time.Time { return c.Sent.Add(c.Latency) }

// done says whether the server confirmed the closing.
func (c Closing) done() bool { return c.Status == 200 }

// unknown says that the closing may or may not have happened.
func (c Closing) unknown() bool { return c.Status == 0 || c.Status >= 500 }

// refuses says whether the answer is a final no. The limiter's says nothing, and
// neither does one while the order is on its way.
func (c Closing) refuses() bool {
	return c.Status >= 300 && c.Status < 500 && c.Status != 429 && c.Code != "in_progress"
}

func (c Closing) verb() string {
	if c.Cancel {
		return "cancel"
	}
	return "pay"
}
