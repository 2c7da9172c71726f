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

// A topic is a sale that somebody watches, or the overview.
type topic struct {
	watchers map[*Watcher]bool
	latest   []byte // snapshot, nil before the first
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

// Watch begins to watch a sale, as an operator or as anybody at an address; or,
// as an operator, the overview of all: the empty SKU.
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
	if sku == overviewTopic {
		w.history = l.events.opening(l.started)
	}
	t := l.topics[sku]
	if t == nil {
		t = &topic{watchers: map[*Watcher]bool{}}
		l.topics[sku] = t
	}
	t.watchers[w] = true
	if t.latest != nil {
		w.next <- t.latest
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

// watched are the SKUs that somebody watches, and whether an operator watches all.
func (l *Live) watched() (skus []string, overview bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	skus = slices.Sorted(maps.Keys(l.topics))
	if overview = l.topics[overviewTopic] != nil; overview {
		skus = skus[1:] // it is the least
	}
	return skus, overview
}

// publish hands the latest snapshot to all who watch sku, if anybody does. Only runOnce sends to
// a watcher that has had one, so there is always room after taking out what the
// watcher has not taken.
func (l *Live) publish(sku string, latest []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[sku]
	if t == nil {
		return
	}
	t.latest = latest
	for w := range t.watchers {
		select {
		case <-w.next:
		default:
		}
		w.next <- latest
	}
}

// dropAllBut ends the streams of all other sales: they are gone.
func (l *Live) dropAllBut(offers []orders.Offer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for sku, t := range l.topics {
		there := slices.ContainsFunc(offers, func(o orders.Offer) bool { return o.SKU == sku })
		if sku != overviewTopic && !there && t.latest != nil {
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
