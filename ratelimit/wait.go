package ratelimit

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"flashsale/ratelimit/limit"
)

// Wait takes cost tokens from b like Allow, but waits for the request's turn instead of refusing.
// It is the leaky bucket as a queue. Requests that arrive together leave at the limit's rate.
// With a burst of n, n of these requests leave at once. Turns follow the order in which Redis
// receives the requests of all nodes. A request that would wait longer than longest, or beyond
// the deadline of ctx, is refused at once and takes no turn. RetryAfter is the time after which
// the queue has room.
//
// Wait takes only one bucket, because turns in two buckets would not coincide. Wait and
// Allow count separate tokens, even for the same Bucket.
//
// If ctx ends before the turn, Wait gives the turn up with one more call, which takes at
// most Config.Timeout. The turn returns to the queue if no later turn is taken. Otherwise
// it stays unused until all later turns are given up, because the requests behind it keep
// their times. The network adds to the waiting time. Wait returns the same errors as
// Allow.
func (l *Limiter) Wait(ctx context.Context, cost int, longest time.Duration, b Bucket) (Result, error) {
	a, err := newAsk(cost, []Bucket{b})
	if err != nil {
		return Result{}, err
	}
	if a.timeout, err = timeout(ctx, longest, b.Limit); err != nil {
		return Result{}, err
	}
	for i := range a.buckets {
		a.buckets[i].queues = true
	}
	result, err := l.decide(ctx, a)
	result.cost = 0 // GiveBack must not return a turn to the bucket of Allow
	if err != nil || result.Waited == 0 {
		return result, err
	}
	select {
	case <-time.After(result.Waited):
		return result, nil
	case <-ctx.Done():
		l.giveUp(ctx, ask{cost: -a.cost, buckets: a.buckets, taken: result.at + result.Reset.Microseconds()})
		return Result{}, fmt.Errorf("ratelimit: wait for a turn: %w", ctx.Err())
	}
}

// maxQueue is the largest debt of a queue, in units (see limit.Limit). Lua's numbers are
// exact up to 2^53, and the script adds a full bucket to the debt.
const maxQueue = 1 << 52

// timeout returns the longest time that a caller waits, in whole microseconds.
func timeout(ctx context.Context, longest time.Duration, l limit.Limit) (time.Duration, error) {
	if longest < 0 {
		return 0, fmt.Errorf("%w: the longest wait is %v, want 0 or more", ErrBadRequest, longest)
	}
	token, rate := l.Units()
	if high, low := bits.Mul64(uint64(longest.Microseconds()), uint64(rate)); high != 0 || low > uint64(maxQueue-l.Burst()*token) {
		return 0, fmt.Errorf("%w: a wait of %v at %v makes a queue too long to count exactly", ErrBadRequest, longest, l)
	}
	if deadline, ends := ctx.Deadline(); ends {
		longest = min(longest, max(time.Until(deadline), 0))
	}
	return longest.Truncate(time.Microsecond), nil
}
