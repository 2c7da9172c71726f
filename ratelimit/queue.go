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
	// maxInFlight is the largest number of concurrent calls. While Redis works on one
	// call, the next is collected and sent. More calls would only make smaller batches.
	maxInFlight = 2
	// maxBatch is the largest number of requests in one call. A full batch with three
	// buckets for each request blocks Redis for about 0.5 ms.
	maxBatch = 256
)

// probePause is the time between two attempts to reach a Redis that is down.
const probePause = 100 * time.Millisecond

// A queue lets concurrent callers share calls. It is not the queue of Wait.
type queue = coalesce.Group[ask, answer]

// newQueue sets CallerRuns, because handing a lone request to another goroutine costs more than
// Redis's work on it.
func (l *Limiter) newQueue() *queue {
	return coalesce.New(coalesce.Config[ask, answer]{
		Call: l.call, MaxBatch: maxBatch, MaxInFlight: maxInFlight,
		Timeout: l.config.Timeout, MaxWait: l.config.Timeout, CallerRuns: true,
	})
}

// ask sends a to Redis and returns the decision.
func (l *Limiter) ask(ctx context.Context, a ask) (answer, error) {
	if err := l.health.mayAsk(l.config.Timeout); err != nil {
		return answer{}, err
	}
	got, err := l.queue.Do(ctx, "", a)
	switch {
	case err == nil:
		return got, got.err
	case errors.Is(err, coalesce.ErrLate):
		return answer{}, fmt.Errorf("%w: the call began too late: %w", ErrUnavailable, err)
	}
	return answer{}, fmt.Errorf("ratelimit: wait for an answer: %w", ctx.Err())
}

// call sends a batch to Redis. Callers that arrived before the last call failed receive
// the error of that call, because Redis would not answer them either.
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

// health describes whether the last call failed. While Redis is down, one request at a
// time checks whether it is back. All other requests fail at once, because a route that
// lets requests pass without Redis must not wait for a timeout first.
type health struct {
	mu      sync.Mutex
	away    error // error of the last call, or nil
	failed  time.Time
	probeAt time.Time // earliest time of the next attempt
}

// mayAsk returns nil if a request may ask Redis now. timeout bounds the time of that
// request.
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

// last returns the time and the error of the last call if it failed, and a nil error
// otherwise.
func (h *health) last() (time.Time, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed, h.away
}

// learn records the result of a call. A call with any answer has not failed: one node of
// a cluster may be down while the other nodes answer.
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
