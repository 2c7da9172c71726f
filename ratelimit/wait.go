package ratelimit

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"flashsale/ratelimit/limit"
)

// Wait is the leaky bucket as a queue: instead of refusing, it lets a request wait for
// its turn. Requests that come together leave at the limit's rate: one by one with a
// burst of 1; with a larger burst, that many leave at once and the rest at the rate.
// Turns are given in the order in which Redis is asked, over all nodes. A request
// that would wait longer than longest, or than ctx lasts, is refused at once, as by
// Allow, and takes no turn. So the queue is bounded, and RetryAfter is when it will
// have room.
//
// Wait takes one bucket: with two, a turn in one would not fit the turn in the other. A
// queue has its own tokens, apart from those of the same Bucket in Allow.
//
// When ctx ends before the turn, the turn goes back to the queue if nobody stands
// behind it, together with those given up before it. That is one more call to Redis,
// and takes the caller Config.Timeout at most. If somebody stands behind it, the turn
// stays unused: the others keep the turns that they were told. Redis plans the turns
// exactly; the way from Redis to the caller adds to them. The errors are Allow's.
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
	result.cost = 0 // a turn is no token that could be given back to Allow's bucket
	if err != nil || result.Waited == 0 {
		return result, err
	}
	select {
	case <-time.After(result.Waited): // its turn
		return result, nil
	case <-ctx.Done():
		l.giveUp(ctx, ask{cost: -a.cost, buckets: a.buckets, taken: result.at + result.Reset.Microseconds()})
		return Result{}, fmt.Errorf("ratelimit: waiting for a turn: %w", ctx.Err())
	}
}

// maxQueue is how many units (see limit.Limit) a bucket with a queue can be short of
// full. Lua's numbers are exact up to 2^53, and the script adds a full bucket to it.
const maxQueue = 1 << 52

// timeout is how long a caller is ready to wait, in whole microseconds.
func timeout(ctx context.Context, longest time.Duration, l limit.Limit) (time.Duration, error) {
	if longest < 0 {
		return 0, fmt.Errorf("%w: the longest wait %v is below 0", ErrBadRequest, longest)
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
