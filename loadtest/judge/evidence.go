package judge

import (
	"strconv"
	"time"
)

// Evidence is all that a verdict rests on: what the clients were told, and what
// the server says it has.
type Evidence struct {
	SKU           string
	Total         int // units put on sale
	PerBuyerLimit int
	ReserveOn     string        // OnOrder or OnPayment; empty: OnOrder
	Search        time.Duration // limit for the search in history.go; 0: 2 s
	Visitors      bool          // other people may have ordered, too; else a row of theirs is a violation

	// Under faults that are brought about on purpose:
	Late     time.Duration // how long after its end a call may still take effect
	Pauses   []Pause       // times during which nodes were stopped
	Changing bool          // the operator changes Total and ReserveOn: only orders, payments and answers are judged

	Requests []Request
	Closings []Closing
	Audit    Audit
	Rows     []Row

	SoldOut   bool   // fresh buyers ordered until sold_out, at the end
	Unsettled string // why the audit did not come to rest; empty: it did
	Unread    string // why Audit and Rows are missing; empty: they are there
	Gaps      []Gap  // what the run could not find out
}

// A Pause is a time during which a node was stopped. Calls that were sent to the node
// take effect when it continues.
type Pause struct {
	Node     int
	From, To time.Time
}

// over returns when a call to a node that ended at end can no longer take effect.
func (e *Evidence) over(node int, end time.Time) time.Time {
	last := end
	for _, p := range e.Pauses {
		if p.Node == node && p.From.Before(end) && p.To.After(last) {
			last = p.To
		}
	}
	return last.Add(e.Late)
}

// Kind is why a client asked.
type Kind string

// The kinds of requests.
const (
	First  Kind = "first"  // a buyer's first order
	Replay Kind = "replay" // a known key again, with the same body
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

// When a sale takes units.
const (
	OnOrder   = "order"   // a 201 promises units
	OnPayment = "payment" // only a paid order has units
)

// Order holds the fields of an order in an answer that the verdict reads.
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
	Key        string `json:"idempotency_key"`
	PaymentRef string `json:"-"` // of a paid order; empty: not known
}

// Audit is where the units of the sale are, as the server says. All counts are
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

// Answer is what one client heard. Status 0 means no answer: a timeout, a broken
// connection or half an answer.
type Answer struct {
	Status     int
	Code       string        // the problem's code
	Order      *Order        // nil unless the answer held one
	Replayed   bool          // Idempotent-Replayed: true
	Location   string        // of 201 and 202
	RetryAfter time.Duration // 0: the answer does not say
	Fault      string        // how the form of the answer breaks the contract; empty: it does not
}

// Reason is status and code, such as "409 sold_out". Replayed answers are
// counted apart, since they are no new orders.
func (a Answer) Reason() string {
	switch {
	case a.Code != "":
		return strconv.Itoa(a.Status) + " " + a.Code
	case a.Replayed:
		return strconv.Itoa(a.Status) + " replayed"
	}
	return strconv.Itoa(a.Status)
}

// Request is one attempt to order, or one GET of what became of it.
type Request struct {
	Kind     Kind
	Attack   bool // sent by vegeta: counted in attempts, answers, rates and latency
	Node     int  // number of the node that was asked; 0 if there is one node
	Buyer    string
	Key      string
	Quantity int
	Sent     time.Time
	Latency  time.Duration
	Answer
}

// End is when the answer was complete, or given up.
func (r Request) End() time.Time { return r.Sent.Add(r.Latency) }

// Announces says whether the answer promises that the order is stored: a 201,
// or the last lookup after a 202.
func (r Request) Announces() bool {
	if r.Order == nil || r.Order.ID == "" {
		return false
	}
	if r.Kind == Lookup {
		return r.Status == 200 && r.Order.Status != Reserved && r.Order.Status != Rejected
	}
	return r.Status == 201
}

// Refuses says whether the answer is a final no.
func (r Request) Refuses() bool {
	if r.Kind == Lookup {
		return r.Status == 200 && r.Order != nil && r.Order.Status == Rejected
	}
	return r.Status >= 300 && r.Status < 500
}

// Limited says whether the rate limiter refused. Then this request was not
// tried; that says nothing about an earlier one under the same key.
func (r Request) Limited() bool { return r.Status == 429 }

// Closing is one call to cancel or pay an order.
type Closing struct {
	Cancel  bool // false: pay
	Node    int  // number of the node that was asked; 0 if there is one node
	OrderID string
	Buyer   string
	Ref     string // reference of the payment; empty if its order has one payment
	Sent    time.Time
	Latency time.Duration
	Answer
}

// End is when the answer was complete, or given up.
func (c Closing) End() time.Time { return c.Sent.Add(c.Latency) }

// Done says whether the server confirmed the closing.
func (c Closing) Done() bool { return c.Status == 200 }

// Unknown says that the answer leaves open whether the call took effect.
func (c Closing) Unknown() bool { return c.Status == 0 || c.Status >= 500 }

// Refuses says whether the answer is a final no. A 429 is not final, and nor is
// in_progress: the order is not stored yet.
func (c Closing) Refuses() bool {
	return c.Status >= 300 && c.Status < 500 && c.Status != 429 && c.Code != "in_progress"
}

// denies reports whether the answer contradicts an earlier confirmation. The answer
// in_progress does, because a confirmed order is stored.
func (c Closing) denies() bool { return c.Refuses() || c.Code == "in_progress" }

// Verb returns what the buyer asked for.
func (c Closing) Verb() string {
	if c.Cancel {
		return "cancel"
	}
	return "pay"
}

// OnPayment says whether the sale takes units on payment. Then a stored order
// promises no units, and there may be more orders than units. The promise is
// "paid": units and the buyer's limit are judged by what payers were told, by
// paid rows, and by an audit with nothing pending. A refused payment leaves its
// order as it was.
func (e *Evidence) OnPayment() bool { return e.ReserveOn == OnPayment }
