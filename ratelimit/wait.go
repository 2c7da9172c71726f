package ratelimit

import (
	"context"
	"fmt"
	"math/bits"
	"time"
)

// Wait is the leaky bucket as a queue: instead of refusing, it lets a request
// wait for its turn, so that what comes in a heap leaves at the limit's rate
// (one by one with a burst of 1; else the burst leaves at once and the rest at
// the rate). Turns are given in the order in which Redis is asked, over all
// nodes. Whoever would have to wait longer than longest, or than ctx lasts, is
// refused at once with a *LimitedError and takes no turn: so the queue has a
// bound, and RetryAfter is when there will be room in it.
//
// Of a queue there is one bucket to a call: with two, whoever waits for one
// would leave the other at another time than it planned. A queue's tokens are
// its own, and none of the Bucket of the same name that Allow asks.
//
// Those behind a caller who gives up keep the turns that they were told. Where
// nobody stands behind it, its turn goes back, with all that were given up before
// it: that takes Redis one more call, and the caller up to Config.Timeout. The
// limiter's Rules apply; when failing open, or in the shadow, nobody waits. Redis
// plans the turns exactly; each caller's way from there to its departure adds what
// it adds.
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
	result, err := l.judge(ctx, a)
	if err != nil || result.Waited == 0 {
		return result, err
	}
	turn := time.NewTimer(result.Waited)
	defer turn.Stop()
	select {
	case <-turn.C:
		return result, nil
	case <-ctx.Done():
		if result.at > 0 { // else this node alone has counted, while Redis is away
			l.giveUp(ctx, ask{cost: -a.cost, buckets: a.buckets, taken: result.at + result.Reset.Microseconds()})
		}
		return Result{}, fmt.Errorf("ratelimit: waiting for a turn: %w", ctx.Err())
	}
}

// timeout is how long a caller would wait, in whole microseconds.
func timeout(ctx context.Context, longest time.Duration, l Limit) (time.Duration, error) {
	if longest < 0 {
		return 0, fmt.Errorf("%w: the longest wait %v is below 0", ErrBadRequest, longest)
	}
	if high, low := bits.Mul64(uint64(longest.Microseconds()), uint64(l.rate)); high != 0 || low > uint64(maxLevel-l.full()) {
		return 0, fmt.Errorf("%w: a wait of %v at %v makes a queue too long to count exactly", ErrBadRequest, longest, l)
	}
	if deadline, ends := ctx.Deadline(); ends {
		longest = min(longest, max(time.Until(deadline), 0))
	}
	return longest.Truncate(time.Microsecond), nil
}
