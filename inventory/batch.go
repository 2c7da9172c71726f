package inventory

import (
	"context"
	"sync"
	"sync/atomic"
)

// callsInFlight is how many script calls of one SKU may be under way at once,
// as a rule. With two, the next batch is on the wire while Redis works on the
// last; more would only make the batches smaller.
const callsInFlight = 2

// mostWaiting bounds the callers of one SKU who stand in line on this node: a
// Redis that hangs must not fill its memory. Others hear ErrBusy.
const mostWaiting = 20_000

// A turnstile is where the callers of one SKU meet. Whoever comes while calls
// are in flight waits and shares the next one, which leaves as soon as one
// returns: there is no timer, and at low load nobody waits at all.
type turnstile struct {
	gate *Gate
	sku  string

	mu       sync.Mutex
	waiting  []*call
	inFlight int

	epoch atomic.Int64 // of the gate, as last seen
	fill  fill         // of the queue's entries, as last read
	memory
}

// A call is one caller's request. Its state decides a race that must have one
// winner: a caller that gives up, and the batch that takes the request along.
type call struct {
	request Request
	state   atomic.Int32
	done    chan struct{}

	reservation Reservation
	err         error
}

const (
	queued int32 = iota
	sent
	abandoned
)

func (c *call) answer(r Reservation, err error) {
	c.reservation, c.err = r, err
	close(c.done)
}

func (t *turnstile) reserve(ctx context.Context, r Request) (Reservation, error) {
	if err := ctx.Err(); err != nil {
		return Reservation{}, err
	}
	c := &call{request: r, done: make(chan struct{})}
	t.mu.Lock()
	if len(t.waiting) >= mostWaiting {
		t.mu.Unlock()
		return Reservation{}, refusals[-3]
	}
	t.waiting = append(t.waiting, c)
	start := t.inFlight < t.gate.cfg.InFlight
	if start {
		t.inFlight++
	}
	t.mu.Unlock()
	if start {
		go t.send()
	}
	select {
	case <-c.done:
		return c.reservation, c.err
	case <-ctx.Done():
		// Not sent yet: never will be. Already sent: the units may be taken;
		// the order then goes its way, and is found under its key.
		c.state.CompareAndSwap(queued, abandoned)
		return Reservation{}, ctx.Err()
	}
}

// send makes script calls until nobody waits. It ends by itself, bounded by
// the call's timeout.
func (t *turnstile) send() {
	for {
		batch := t.next()
		if batch == nil {
			return
		}
		t.reserveBatch(batch)
	}
}

// next takes the callers of the next script call, or ends this sender.
func (t *turnstile) next() []*call {
	t.mu.Lock()
	defer t.mu.Unlock()
	var batch []*call
	for len(batch) == 0 {
		if len(t.waiting) == 0 {
			t.inFlight--
			t.waiting = nil // a burst's slice is not kept
			return nil
		}
		n := min(len(t.waiting), t.gate.cfg.Batch)
		for _, c := range t.waiting[:n] {
			if c.state.CompareAndSwap(queued, sent) {
				batch = append(batch, c)
			}
		}
		t.waiting = t.waiting[n:]
	}
	return batch
}
