package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// maxInFlight calls are under way at once: while Redis works on one, the
	// next is being collected and sent. More would only make smaller batches.
	maxInFlight = 2
	// maxBatch requests go into one call. It bounds how long the script keeps
	// Redis from its other work: some 0.5 ms with three buckets each.
	maxBatch = 256
)

// probePause is the time between two attempts to reach a Redis that is away.
const probePause = 100 * time.Millisecond

var errWaitedTooLong = errors.New("waited too long for the calls before")

// request is one caller's ask, waiting for its answer.
type request struct {
	ask
	ctx   context.Context
	since time.Time
	done  chan answer // of length 1: answering never waits for the caller
}

func newRequest(ctx context.Context, a ask) *request {
	return &request{ask: a, ctx: ctx, since: time.Now(), done: make(chan answer, 1)}
}

// answer waits for it until the caller gives up. One that is there counts.
func (r *request) answer() (answer, error) {
	select {
	case a := <-r.done:
		return a, nil
	default:
	}
	select {
	case a := <-r.done:
		return a, nil
	case <-r.ctx.Done():
		return answer{}, fmt.Errorf("ratelimit: waiting for an answer: %w", r.ctx.Err())
	}
}

// queue collects the callers that come while calls are under way.
type queue struct {
	mu       sync.Mutex
	waiting  []*request
	inFlight int
	// away is why the last call failed, nil while Redis answers.
	away    error
	probeAt time.Time
}

// add appends a request and tells whether its caller must send. A
// call under way otherwise takes it along as soon as it has returned: there is
// no timer, so nobody waits for company.
//
// While Redis is away, one request at a time finds out whether it is back, and
// the others hear at once that it isn't: a policy that lets them pass is of no
// use if each has to wait for a timeout first.
func (q *queue) add(r *request) (start bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away != nil && (q.inFlight > 0 || r.since.Before(q.probeAt)) {
		return false, q.away
	}
	q.waiting = append(q.waiting, r)
	if q.inFlight == maxInFlight {
		return false, nil
	}
	q.inFlight++
	return true, nil
}

// learn keeps what a call showed of Redis: nil that it answers. If it doesn't,
// those who wait hear of it now; their own call would end no better.
func (q *queue) learn(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.away = err
	if err == nil {
		return
	}
	q.probeAt = time.Now().Add(probePause)
	for _, r := range q.waiting {
		r.done <- answer{err: err}
	}
	q.waiting = nil
}

// next takes the next batch, or counts its sender off when nothing waits: both
// under the one lock, or a request added in between would wait for ever.
//
// Callers that have given up are dropped: they cost nobody tokens. Those that
// have waited longer than patience are told so instead of being sent: when
// Redis is slow the queue grows to many batches, and the last would otherwise
// wait for all of them.
func (q *queue) next(patience time.Duration) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	var batch []*request
	taken := 0
	for _, r := range q.waiting {
		if len(batch) == maxBatch {
			break
		}
		taken++
		switch {
		case r.ctx.Err() != nil:
		case now.Sub(r.since) > patience:
			r.done <- answer{err: fmt.Errorf("%w: %w", ErrUnavailable, errWaitedTooLong)}
		default:
			batch = append(batch, r)
		}
	}
	if taken == len(q.waiting) {
		clear(q.waiting) // let go of what was answered
		q.waiting = q.waiting[:0]
	} else {
		q.waiting = append([]*request(nil), q.waiting[taken:]...)
	}
	if len(batch) == 0 {
		q.inFlight--
	}
	return batch
}

// more tells whether somebody waits, and else counts the sender off.
func (q *queue) more() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		return true
	}
	q.inFlight--
	return false
}

// carry sends a batch for the caller that is in it, and leaves those who came
// meanwhile to a goroutine. To hand a lone request to another goroutine and wait
// for that costs more than Redis's work on it.
func (l *Limiter) carry() {
	if l.sendBatch() && l.queue.more() {
		go l.send()
	}
}

// send carries batches to Redis until nobody waits any more.
func (l *Limiter) send() {
	for l.sendBatch() {
	}
}

// sendBatch carries those who wait to Redis. A batch runs under its own context:
// one caller that gives up must not take its neighbours' call with it.
func (l *Limiter) sendBatch() bool {
	batch := l.queue.next(l.config.Timeout)
	if len(batch) == 0 {
		return false
	}
	asks := make([]ask, len(batch))
	for i, r := range batch {
		asks[i] = r.ask
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.config.Timeout)
	answers := l.askAll(ctx, asks)
	cancel()
	l.queue.learn(commonError(answers))
	for i, r := range batch {
		r.done <- answers[i]
	}
	return true
}

// commonError is the error of a call that brought nobody an answer, else nil:
// one node of a cluster may be away while the others answer.
func commonError(answers []answer) error {
	for _, a := range answers {
		if a.err == nil {
			return nil
		}
	}
	return answers[0].err
}

func (l *Limiter) askAll(ctx context.Context, asks []ask) []answer {
	if l.perSlot {
		return l.takePerSlot(ctx, asks)
	}
	return l.take(ctx, asks)
}
