package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"flashsale/inventory/coalesce"
)

const (
	// maxInFlight calls are under way at once, at most: while Redis works on one,
	// the next is collected and sent. More would only make smaller batches.
	maxInFlight = 2
	// maxBatch requests go into one call, at most. It bounds how long the script keeps
	// Redis from its other work: some 0.5 ms with three buckets each.
	maxBatch = 256
)

// probePause is the time between two attempts to reach a Redis that is away.
const probePause = 100 * time.Millisecond

// queue is where callers of the same moment share a call. (It is not Wait's queue.)
type queue = coalesce.Group[ask, answer]

// A caller who finds nobody before it makes the call itself: to hand a lone
// request to another goroutine costs more than Redis's work on it.
func (l *Limiter) newQueue() *queue {
	return coalesce.New(coalesce.Config[ask, answer]{
		Call: l.call, Batch: maxBatch, InFlight: maxInFlight,
		Timeout: l.config.Timeout, MaxWait: l.config.Timeout, Self: true,
	})
}

// ask has Redis decide.
func (l *Limiter) ask(ctx context.Context, a ask) (answer, error) {
	if err := l.health.mayAsk(l.config.Timeout); err != nil {
		return answer{}, err
	}
	got, err := l.queue.Do(ctx, "", a)
	switch {
	case err == nil:
		return got, got.err
	case errors.Is(err, coalesce.ErrLate):
		return answer{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return answer{}, fmt.Errorf("ratelimit: waiting for an answer: %w", ctx.Err())
}

// call carries a batch to Redis, without the callers who came before the last call
// failed: they hear of that failure now, since their own call would end no better.
func (l *Limiter) call(ctx context.Context, _ string, batch []*coalesce.Caller[ask, answer]) {
	if failed, err := l.health.last(); err != nil {
		batch = slices.DeleteFunc(slices.Clone(batch), func(c *coalesce.Caller[ask, answer]) bool {
			old := c.Since.Before(failed)
			if old {
				c.Answer.err = err
			}
			return old
		})
	}
	if len(batch) == 0 {
		return
	}
	asks := make([]ask, len(batch))
	for i, c := range batch {
		asks[i] = c.Q
	}
	take := l.take
	if l.perSlot {
		take = l.takePerSlot
	}
	answers := take(ctx, asks)
	l.health.learn(answers)
	for i, c := range batch {
		c.Answer = answers[i]
	}
}

// health is what the last call showed of Redis. While Redis is away, one request at a
// time finds out whether it is back, and the others hear at once that it isn't. To
// let requests pass while Redis is away is of no use if each waits for a timeout first.
type health struct {
	mu      sync.Mutex
	away    error // why the last call failed, nil while Redis answers
	failed  time.Time
	probeAt time.Time // when the next request may ask
}

// mayAsk is nil if a request may ask now; timeout is how long that may take.
func (h *health) mayAsk(timeout time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away == nil {
		return nil
	}
	now := time.Now()
	if now.Before(h.probeAt) {
		return h.away
	}
	h.probeAt = now.Add(timeout)
	return nil
}

// last is when and why the last call failed; the error is nil if it did not.
func (h *health) last() (time.Time, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed, h.away
}

// learn keeps what a call showed. A call with any answer has not failed: one node of a
// cluster may be away while the others answer.
func (h *health) learn(answers []answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = nil
	if slices.ContainsFunc(answers, func(a answer) bool { return a.err == nil }) {
		return
	}
	h.away, h.failed = answers[0].err, time.Now()
	h.probeAt = h.failed.Add(probePause)
}
