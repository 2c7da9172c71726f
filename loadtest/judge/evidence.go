package judge

import (
	"strconv"
	"time"
)

// Evidence is the input of Judge: the terms of the sale, the calls of all clients with
// their answers, and the rows and the audit that an operator has read at the end.
type Evidence struct {
	SKU           string
	Total         int           // units put on sale
	UnitsPerBuyer int           // units that one buyer may hold
	ReserveOn     string        // OnOrder or OnPayment; empty means OnOrder
	Search        time.Duration // time limit of the History check; 0 means 2 s
	Visitors      bool          // buyers outside the load test may order; if false, their rows are Unannounced

	// The next three fields are set if the run causes faults on purpose.
	MaxEffectDelay time.Duration // a call may take effect until this long after its end
	Pauses         []Pause       // periods in which nodes were stopped
	Changing       bool          // the operator changes Total and ReserveOn during the run

	Requests []Request
	Closings []Closing
	Audit    Audit
	Rows     []Row
	Feed     *Feed // nil if the server has no feed of changes

	Lacks []Feature // features that the shop does not have; the checks of these features do not apply

	SoldOut   bool          // fresh buyers ordered at the end until they received sold_out; Undersold requires it
	Unsettled string        // why the audit kept changing; empty if the sale is at rest
	Unread    string        // why Audit and Rows are missing; empty if they are complete
	Timeout   time.Duration // after which a client gave up; a call that ended earlier without an answer is not worked on any more
	Gaps      []Gap         // checks that the run made impossible
}

// A Pause is a period in which a node was stopped. A call that was sent to the node
// before the end of the pause may take effect when the node continues.
type Pause struct {
	Node     int
	From, To time.Time
}

// lastEffect returns the time after which a call to node that ended at end can no longer
// take effect.
func (e *Evidence) lastEffect(node int, end time.Time) time.Time {
	last := end
	for _, p := range e.Pauses {
		if p.Node == node && p.From.Before(end) && p.To.After(last) {
			last = p.To
		}
	}
	return last.Add(e.MaxEffectDelay)
}

// Kind is the reason for which a client sent a request.
type Kind string

// The kinds of requests.
const (
	First  Kind = "first"  // the first order of a buyer
	Replay Kind = "replay" // the same key and body again
	Second Kind = "second" // a new key of a buyer who has already ordered
	Retry  Kind = "retry"  // the same key again, because the outcome is unknown
	Fresh  Kind = "fresh"  // the order of a new buyer after the attack, for units that are left
	Lookup Kind = "lookup" // GET of the Location of a 202
)

// The statuses of an order in the contract.
const (
	Reserved  = "reserved"
	Pending   = "pending_payment"
	Paid      = "paid"
	Cancelled = "cancelled"
	Expired   = "expired"
	Rejected  = "rejected"
)

// The points at which a sale takes units.
const (
	OnOrder   = "order"   // a 201 promises units
	OnPayment = "payment" // a confirmed payment promises units
)

// Order contains the fields of an order that Judge reads from an answer.
type Order struct {
	ID        string    `json:"id"`
	SKU       string    `json:"sku"`
	Buyer     string    `json:"buyer"`
	Quantity  int       `json:"quantity"`
	Status    string    `json:"status"`
	ExpiresAt time.Time `json:"expires_at"`
	PaidAt    time.Time `json:"paid_at"`   // zero if the order is not paid
	ClosedAt  time.Time `json:"closed_at"` // zero if the order is not cancelled or expired
}

// Row is one stored order, as the server lists it to an operator.
type Row struct {
	Order
	Key        string `json:"idempotency_key"`
	PaymentRef string `json:"-"` // reference that has paid the order; empty if not known
}

// Audit is the server's own count of the units of a sale. Each number is a number of
// units.
type Audit struct {
	SKU       string `json:"sku"`
	Total     int    `json:"total"`
	Available int    `json:"available"`
	Queued    int    `json:"queued"`
	Sold      int    `json:"sold"`
	Paid      int    `json:"paid"`
	Pending   int    `json:"pending"`
	Restoring int    `json:"restoring"`
	Oversold  int    `json:"oversold"`
	Drift     int    `json:"drift"`
	Balanced  bool   `json:"balanced"`
}

// Answer is the answer to one call. A Status of 0 means that the client received none:
// the call timed out, the connection broke, or the answer was incomplete.
type Answer struct {
	Status     int
	Code       string        // code of the problem document
	Order      *Order        // nil if the answer contains no order
	Replayed   bool          // the header Idempotent-Replayed is true
	Location   string        // header of a 201 or 202
	RetryAfter time.Duration // 0 if the answer has no Retry-After
	Fault      string        // fault of the answer's form, such as a missing header; empty if there is none
}

// Reason returns status and code, such as "409 sold_out". Replayed answers have a
// reason of their own, because they are not new orders.
func (a Answer) Reason() string {
	switch {
	case a.Code != "":
		return strconv.Itoa(a.Status) + " " + a.Code
	case a.Replayed:
		return strconv.Itoa(a.Status) + " replayed"
	}
	return strconv.Itoa(a.Status)
}

// Request is one attempt to order, or one lookup of an order, with its answer.
type Request struct {
	Kind     Kind
	Attack   bool // sent during the attack: counted in attempts, answers, rates and latency
	Node     int  // number of the node; 0 if there is only one
	Buyer    string
	Key      string
	Quantity int
	Sent     time.Time
	Latency  time.Duration
	Answer
}

// End returns the time at which the answer was complete or the client gave up.
func (r Request) End() time.Time { return r.Sent.Add(r.Latency) }

// Announces reports whether the answer promises that the order is stored. A 201 does,
// and so does a lookup that shows the order of an earlier 202 as stored.
func (r Request) Announces() bool {
	if r.Order == nil || r.Order.ID == "" {
		return false
	}
	if r.Kind == Lookup {
		return r.Status == 200 && r.Order.Status != Reserved && r.Order.Status != Rejected
	}
	return r.Status == 201
}

// Refuses reports whether the answer refuses the order: a status from 300 to 499, or a
// lookup that shows the order as rejected.
func (r Request) Refuses() bool {
	if r.Kind == Lookup {
		return r.Status == 200 && r.Order != nil && r.Order.Status == Rejected
	}
	return r.Status >= 300 && r.Status < 500
}

// Limited reports whether the rate limiter refused the request. Such a refusal proves
// nothing about earlier requests with the same key.
func (r Request) Limited() bool { return r.Status == 429 }

// Closing is one call to cancel or to pay an order, with its answer.
type Closing struct {
	Cancel  bool // false for a payment
	Node    int  // number of the node; 0 if there is only one
	OrderID string
	Buyer   string
	Ref     string // reference of the payment; empty if the order has only one
	Sent    time.Time
	Latency time.Duration
	Answer
}

// End returns the time at which the answer was complete or the client gave up.
func (c Closing) End() time.Time { return c.Sent.Add(c.Latency) }

// Done reports whether the server confirmed the call.
func (c Closing) Done() bool { return c.Status == 200 }

// Inconclusive reports whether it is unknown if the call took effect, because the client
// received no answer or a 5xx.
func (c Closing) Inconclusive() bool { return c.Status == 0 || c.Status >= 500 }

// Refuses reports whether the answer refuses the call with a status from 300 to 499. A
// 429 and the code in_progress are not refusals, because the same call may succeed later.
func (c Closing) Refuses() bool {
	return c.Status >= 300 && c.Status < 500 && c.Status != 429 && c.Code != "in_progress"
}

// denies reports whether the answer contradicts an earlier confirmation. The answer
// in_progress does, because a confirmed order is stored.
func (c Closing) denies() bool { return c.Refuses() || c.Code == "in_progress" }

// Verb returns "cancel" or "pay".
func (c Closing) Verb() string {
	if c.Cancel {
		return "cancel"
	}
	return "pay"
}

// OnPayment reports whether the sale takes units on payment. Then an announced order
// promises no units, and there may be more orders than units. The checks Oversold and
// OverLimit count confirmed payments and paid rows, and the audit must have nothing
// pending. A refused payment leaves its order open.
func (e *Evidence) OnPayment() bool { return e.ReserveOn == OnPayment }
