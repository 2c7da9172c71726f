package loadtest

import (
	"slices"
	"sync"
)

// ledger is the clients' own book: every request and closing, as it was
// answered. Safe for concurrent use.
type ledger struct {
	mu       sync.Mutex
	requests []Request
	closings []Closing
}

func (l *ledger) request(r Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r)
}

func (l *ledger) closing(c Closing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closings = append(l.closings, c)
}

// read returns the entries so far; entries are never changed once written.
func (l *ledger) read() ([]Request, []Closing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests[:len(l.requests):len(l.requests)], l.closings[:len(l.closings):len(l.closings)]
}

// ask names one thing a client wants: a key belongs to its buyer.
type ask struct{ buyer, key string }

// outcome is what a client knows about one ask after all its answers.
type outcome struct {
	ask
	quantity  int
	ids       []string  // distinct ids that were announced, in order
	announced *Request  // the first announcement to arrive
	refused   bool      // finally: no answer that came later leaves it open
	doubted   bool      // some answer was unknown, even if a later one settled it
	requests  []Request // all of them, by time of sending
}

// known says whether the client knows what became of its order.
func (o *outcome) known() bool { return o.announced != nil || o.refused }

// outcomes folds the requests into one outcome per ask, in order of first
// sending.
func outcomes(requests []Request) []*outcome {
	index := make(map[ask]*outcome, len(requests))
	var list []*outcome
	for _, r := range requests {
		a := ask{r.Buyer, r.Key}
		o := index[a]
		if o == nil {
			o = &outcome{ask: a, quantity: r.Quantity}
			index[a] = o
			list = append(list, o)
		}
		o.requests = append(o.requests, r)
	}
	for _, o := range list {
		slices.SortStableFunc(o.requests, func(a, b Request) int { return a.Sent.Compare(b.Sent) })
		o.fold()
	}
	slices.SortStableFunc(list, func(a, b *outcome) int { return a.requests[0].Sent.Compare(b.requests[0].Sent) })
	return list
}

func (o *outcome) fold() {
	var doubt Request // the unknown answer that ended last
	for i := range o.requests {
		r := &o.requests[i]
		switch {
		case r.announces():
			if o.announced == nil || r.End().Before(o.announced.End()) {
				o.announced = r
			}
			if !slices.Contains(o.ids, r.Order.ID) {
				o.ids = append(o.ids, r.Order.ID)
			}
		case r.refuses():
		default:
			if !o.doubted || r.End().After(doubt.End()) {
				doubt = *r
			}
			o.doubted = true
		}
	}
	// A refusal settles a doubt only if it was asked for after the doubt
	// arose: the lost request may have been served behind an earlier one.
	for _, r := range o.requests {
		if r.refuses() && (!o.doubted || !r.limited() && !r.Sent.Before(doubt.End())) {
			o.refused = o.announced == nil
		}
	}
}

// openOrder is an order that its client was promised and has not closed.
type openOrder struct {
	id, buyer string
	quantity  int
}

// open lists the announced orders that no client tried to close, the smallest
// first.
func (l *ledger) open() []openOrder {
	requests, closings := l.read()
	touched := make(map[string]bool, len(closings))
	for _, c := range closings {
		touched[c.OrderID] = true
	}
	var list []openOrder
	for _, o := range outcomes(requests) {
		if o.announced == nil || touched[o.ids[0]] || o.announced.Order.Status != Pending {
			continue
		}
		list = append(list, openOrder{o.ids[0], o.buyer, o.quantity})
	}
	slices.SortStableFunc(list, func(a, b openOrder) int { return a.quantity - b.quantity })
	return list
}
