package judge

import (
	"slices"
	"time"
)

// Intent names one thing that a buyer wants: an idempotency key belongs to its
// buyer.
type Intent struct{ Buyer, Key string }

// Outcome is what a client knows about one intent after all its answers.
type Outcome struct {
	Intent
	Quantity  int
	IDs       []string  // distinct ids that were announced, in order
	Announced *Request  // the first announcement to arrive
	refused   bool      // finally: no later answer leaves it open
	Doubted   bool      // some answer was unknown, even if a later one was not
	Requests  []Request // all of them, by time of sending
}

// Known says whether the client knows what became of its order.
func (o *Outcome) Known() bool { return o.Announced != nil || o.refused }

// Outcomes makes one outcome per intent of the requests, in the order in which
// the intents were first sent.
func Outcomes(requests []Request) []*Outcome { return (&Evidence{Requests: requests}).outcomes() }

func (e *Evidence) outcomes() []*Outcome {
	index := make(map[Intent]*Outcome, len(e.Requests))
	var list []*Outcome
	for _, r := range e.Requests {
		a := Intent{r.Buyer, r.Key}
		o := index[a]
		if o == nil {
			o = &Outcome{Intent: a, Quantity: r.Quantity}
			index[a] = o
			list = append(list, o)
		}
		o.Requests = append(o.Requests, r)
	}
	for _, o := range list {
		slices.SortStableFunc(o.Requests, func(a, b Request) int { return a.Sent.Compare(b.Sent) })
		o.fold(e)
	}
	slices.SortStableFunc(list, func(a, b *Outcome) int { return a.Requests[0].Sent.Compare(b.Requests[0].Sent) })
	return list
}

func (o *Outcome) fold(e *Evidence) {
	var doubt time.Time // when the last unknown answer could no longer take effect
	for i := range o.Requests {
		r := &o.Requests[i]
		switch {
		case r.Announces():
			if o.Announced == nil || r.End().Before(o.Announced.End()) {
				o.Announced = r
			}
			if !slices.Contains(o.IDs, r.Order.ID) {
				o.IDs = append(o.IDs, r.Order.ID)
			}
		case r.Refuses():
		default:
			if over := e.over(r.Node, r.End()); over.After(doubt) {
				doubt = over
			}
			o.Doubted = true
		}
	}
	// A refusal counts only if it was sent after the last unknown answer was
	// given up: a lost request may have been served after an earlier refusal.
	for _, r := range o.Requests {
		if r.Refuses() && (!o.Doubted || !r.Limited() && !r.Sent.Before(doubt)) {
			o.refused = o.Announced == nil
		}
	}
}

// Payment is what a client knows about the payment of one order. All calls have
// the same reference and stand for one payment.
type Payment struct {
	asked   time.Time // when it was first sent; zero: never
	Told    time.Time // when the client first heard "paid"; zero: never
	Refused bool      // finally: no later answer leaves it open
	Doubted bool      // some answer was unknown, even if a later one was not
}

// PaymentOf adds up the closings of one order.
func PaymentOf(closings []Closing) Payment { return (&Evidence{}).paymentOf(closings) }

func (e *Evidence) paymentOf(closings []Closing) (p Payment) {
	var doubt time.Time // when the latest unknown answer was given up
	for _, cl := range closings {
		if cl.Cancel {
			continue
		}
		if p.asked.IsZero() || cl.Sent.Before(p.asked) {
			p.asked = cl.Sent
		}
		switch {
		case cl.Done():
			p.hears(cl.End())
		case cl.Unknown():
			p.Doubted = true
			if over := e.over(cl.Node, cl.End()); over.After(doubt) {
				doubt = over
			}
		}
	}
	for _, cl := range closings {
		if !cl.Cancel && cl.Refuses() && !cl.Sent.Before(doubt) {
			p.Refused = p.Told.IsZero()
		}
	}
	return p
}

func (p *Payment) hears(at time.Time) {
	if p.Told.IsZero() || at.Before(p.Told) {
		p.Told = at
	}
}
