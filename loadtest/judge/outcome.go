package judge

import (
	"slices"
	"time"
)

// Intent identifies one order that a buyer wants. An idempotency key is unique per
// buyer.
type Intent struct{ Buyer, Key string }

// Outcome describes what all answers prove about one intent.
type Outcome struct {
	Intent
	Quantity     int
	IDs          []string  // distinct ids that were announced, in order
	Announced    *Request  // request whose announcement arrived first
	refused      bool      // a refusal is final: no request with this key can still create an order
	Inconclusive bool      // some answer was neither an announcement nor a refusal
	Requests     []Request // all requests with this key, ordered by Sent
}

// Known reports whether the answers prove that the order is stored or that it never
// will be.
func (o *Outcome) Known() bool { return o.Announced != nil || o.refused }

// Outcomes returns one outcome for each intent, in the order in which the intents were
// first sent.
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
	var doubt time.Time // time after which no inconclusive request can take effect
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
			if until := e.lastEffect(r.Node, r.End()); until.After(doubt) {
				doubt = until
			}
			o.Inconclusive = true
		}
	}
	// A refusal is final only if it was sent after the last inconclusive request could
	// take effect. The server may have served that request after an earlier refusal.
	for _, r := range o.Requests {
		if r.Refuses() && (!o.Inconclusive || !r.Limited() && !r.Sent.Before(doubt)) {
			o.refused = o.Announced == nil
		}
	}
}

// Payment describes what all answers prove about one payment of one order. Its calls
// have the same reference.
type Payment struct {
	askedAt      time.Time // time of the first call; zero if there was none
	ConfirmedAt  time.Time // time of the first confirmation; zero if there was none
	Refused      bool      // a refusal is final: no call of this payment can still take effect
	Inconclusive bool      // some call received no answer or a 5xx
}

// PaymentOf derives the payment from the closings of one order. It ignores
// cancellations.
func PaymentOf(closings []Closing) Payment { return (&Evidence{}).paymentOf(closings) }

func (e *Evidence) paymentOf(closings []Closing) (p Payment) {
	var doubt time.Time // time after which no inconclusive call can take effect
	for _, cl := range closings {
		if cl.Cancel {
			continue
		}
		if p.askedAt.IsZero() || cl.Sent.Before(p.askedAt) {
			p.askedAt = cl.Sent
		}
		switch {
		case cl.Done():
			p.confirm(cl.End())
		case cl.Inconclusive():
			p.Inconclusive = true
			if until := e.lastEffect(cl.Node, cl.End()); until.After(doubt) {
				doubt = until
			}
		}
	}
	for _, cl := range closings {
		if !cl.Cancel && cl.Refuses() && !cl.Sent.Before(doubt) {
			p.Refused = p.ConfirmedAt.IsZero()
		}
	}
	return p
}

func (p *Payment) confirm(at time.Time) {
	if p.ConfirmedAt.IsZero() || at.Before(p.ConfirmedAt) {
		p.ConfirmedAt = at
	}
}
