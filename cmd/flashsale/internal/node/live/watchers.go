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

// A topic is a watched sale or the overview.
type topic struct {
	watchers map[*Watcher]bool
	latest   []byte // latest snapshot, nil before the first one
}

// A place identifies the streams that share a bound. Buyers and operators at one address have
// separate bounds, so that the buyers of an office do not lock out its operator.
type place struct {
	address  string
	operator bool
}

// A Watcher is a client that watches a sale or the overview.
type Watcher struct {
	live *Live
	sku  string
	place
	history []byte
	next    chan []byte // capacity 1: a slow client misses snapshots and delays no one else
	leave   sync.Once
}

// Watch returns a new Watcher of a sale, or of the overview if sku is empty. The caller
// must call Leave. Watch returns ErrFull, ErrEnded, or *admission.LimitedError if the
// address has the maximum number of streams of buyers, or of operators.
func (l *Live) Watch(sku, address string, operator bool) (*Watcher, error) {
	at := place{address, operator}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return nil, ErrEnded
	case operator && l.operators >= l.cfg.Operators, !operator && l.watching >= l.cfg.Watchers:
		return nil, ErrFull
	case int64(l.addresses[at]) >= l.cfg.PerAddress.Burst():
		return nil, &admission.LimitedError{Result: ratelimit.Result{Bucket: "live", Limit: l.cfg.PerAddress, RetryAfter: 10 * time.Second}}
	}
	w := &Watcher{live: l, sku: sku, place: at, history: l.histories.event(sku), next: make(chan []byte, 1)}
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

// take adds n to the number of streams: 1 for a new one, -1 when one ends. The caller
// must hold mu.
func (l *Live) take(w *Watcher, n int) {
	if w.operator {
		l.operators += n
	} else {
		l.watching += n
	}
	if l.addresses[w.place] += n; l.addresses[w.place] == 0 {
		delete(l.addresses, w.place)
	}
}

// StreamLife returns the maximum duration of a new stream. It is random, see Config.StreamLife.
func (l *Live) StreamLife() time.Duration { return l.cfg.Life - rand.N(l.cfg.Life/4+1) }

// History returns the first events of the stream, which contain the last ten minutes.
func (w *Watcher) History() []byte { return w.history }

// Next returns a channel of snapshots, encoded as events. The channel is closed if the
// node stops or the sale no longer exists.
func (w *Watcher) Next() <-chan []byte { return w.next }

// Leave ends the stream. It may be called more than once.
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

// watched returns the watched SKUs and whether an operator watches the overview.
func (l *Live) watched() (skus []string, overview bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	skus = slices.Sorted(maps.Keys(l.topics))
	if overview = l.topics[overviewTopic] != nil; overview {
		skus = skus[1:] // overviewTopic is "", so it sorts first
	}
	return skus, overview
}

// publish sends the latest snapshot to all watchers of sku. If a watcher has not received
// the previous snapshot yet, publish replaces it. The send does not block: nothing else can
// fill the channel while mu is held.
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

// dropAllBut ends the streams of sales that are not in offers, because they no longer
// exist. A new sale that has not had a snapshot yet keeps its streams.
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

// end ends all streams. From then on Watch returns ErrEnded.
func (l *Live) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for sku := range l.topics {
		l.drop(sku)
	}
}

// drop ends the streams of sku. The caller must hold mu.
func (l *Live) drop(sku string) {
	for w := range l.topics[sku].watchers {
		close(w.next)
	}
	delete(l.topics, sku)
}
