package live

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"flashsale/orders"
	"flashsale/ratelimit"
	"flashsale/ratelimit/admission"
)

// A topic is a sale that somebody watches.
type topic struct {
	watchers map[*Watcher]bool
	public   []byte // the latest snapshot, nil before the first
	operator []byte // nil where no operator has watched just then
}

// A Watcher is one who watches a sale.
type Watcher struct {
	live     *Live
	sku      string
	address  string
	operator bool
	history  []byte
	next     chan []byte // of one: who is slow misses snapshots, and delays nobody
	leave    sync.Once
}

// Watch begins to watch a sale, as an operator or as anybody at an address.
// Leave must be called in the end. Errors: ErrFull, ErrEnded, and
// *admission.LimitedError for an address that has all its places.
func (l *Live) Watch(sku, address string, operator bool) (*Watcher, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return nil, ErrEnded
	case operator && l.operators >= l.cfg.Operators, !operator && l.watching >= l.cfg.Watchers:
		return nil, ErrFull
	case !operator && int64(l.addresses[address]) >= l.cfg.PerAddress.Burst():
		return nil, &admission.LimitedError{Result: ratelimit.Result{Bucket: "live", Limit: l.cfg.PerAddress, RetryAfter: 10 * time.Second}}
	}
	w := &Watcher{live: l, sku: sku, address: address, operator: operator, history: l.histories.event(sku), next: make(chan []byte, 1)}
	l.take(w, 1)
	t := l.topics[sku]
	if t == nil {
		t = &topic{watchers: map[*Watcher]bool{}}
		l.topics[sku] = t
	}
	t.watchers[w] = true
	if latest := t.latest(operator); latest != nil {
		w.next <- latest
	}
	return w, nil
}

// take counts one who comes (1) or leaves (-1). The caller has mu.
func (l *Live) take(w *Watcher, n int) {
	if w.operator {
		l.operators += n
		return
	}
	l.watching += n
	if l.addresses[w.address] += n; l.addresses[w.address] == 0 {
		delete(l.addresses, w.address)
	}
}

// Life is how long a stream that begins now may last.
func (l *Live) Life() time.Duration { return l.cfg.Life - rand.N(l.cfg.Life/4+1) }

// History is the first event of the stream: the last ten minutes of the sale.
func (w *Watcher) History() []byte { return w.history }

// Next has the snapshots as they are made, events of a stream. It is closed
// when there will be no more: the node stops, or the sale is gone.
func (w *Watcher) Next() <-chan []byte { return w.next }

// Leave ends watching.
func (w *Watcher) Leave() {
	w.leave.Do(func() {
		w.live.mu.Lock()
		defer w.live.mu.Unlock()
		w.live.take(w, -1)
		if t := w.live.topics[w.sku]; t != nil {
			delete(t.watchers, w)
			if len(t.watchers) == 0 {
				delete(w.live.topics, w.sku)
			}
		}
	})
}

func (t *topic) latest(operator bool) []byte {
	if operator && t.operator != nil {
		return t.operator
	}
	return t.public
}

// watched are the SKUs that somebody watches, and those that an operator does.
func (l *Live) watched() (skus []string, operators map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	operators = map[string]bool{}
	for sku, t := range l.topics {
		for w := range t.watchers {
			if w.operator {
				operators[sku] = true
				break
			}
		}
	}
	return slices.Sorted(maps.Keys(l.topics)), operators
}

// publish hands the latest snapshot to all who watch sku. Only runOnce sends to
// a watcher that has had one, so there is always room after taking out what the
// watcher has not taken.
func (l *Live) publish(sku string, public, operator []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[sku]
	if t == nil {
		return
	}
	t.public, t.operator = public, operator
	for w := range t.watchers {
		select {
		case <-w.next:
		default:
		}
		w.next <- t.latest(w.operator)
	}
}

// dropAllBut ends the streams of all other sales: they are gone.
func (l *Live) dropAllBut(offers []orders.Offer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for sku, t := range l.topics {
		there := slices.ContainsFunc(offers, func(o orders.Offer) bool { return o.SKU == sku })
		if !there && t.public != nil {
			l.drop(sku)
		}
	}
}

// end ends all streams, now and in future.
func (l *Live) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for sku := range l.topics {
		l.drop(sku)
	}
}

// drop ends the streams of sku. The caller has mu.
func (l *Live) drop(sku string) {
	for w := range l.topics[sku].watchers {
		close(w.next)
	}
	delete(l.topics, sku)
}
