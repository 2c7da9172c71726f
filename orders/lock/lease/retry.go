package lease

import (
	"errors"
	"time"

	"flashsale/orders/lock/internal/nap"
)

// A Retry says how long to wait before the n-th retry, counted from 1, and whether
// there is one: if again is false, Acquire returns ErrHeld. It should depend on n
// alone: many calls share one Retry.
type Retry func(n int) (wait time.Duration, again bool)

// Every asks again after each d, without end.
func Every(d time.Duration) Retry {
	return func(int) (time.Duration, bool) { return d, true }
}

// Backoff doubles its wait from first up to most. Each wait is shortened at random, to
// no less than half, so that those who lost together do not come back together.
func Backoff(first, most time.Duration) Retry {
	return func(n int) (time.Duration, bool) {
		d := most
		if n <= 62 && first<<(n-1) > 0 && first<<(n-1)>>(n-1) == first {
			d = min(first<<(n-1), most)
		}
		return d/2 + nap.Jitter(d/2), true
	}
}

// Poll calls try once for TryAcquire. For Acquire it calls try by the policy
// Config.Retry, until try returns something other than ErrHeld, the context ends, or the
// policy allows no further retry.
func (c *Call) Poll(try func(*Call) (*Lock, error)) (*Lock, error) {
	for n := 1; ; n++ {
		l, err := try(c)
		if !errors.Is(err, ErrHeld) || c.Waiting == nil {
			return l, err
		}
		if n == 1 {
			c.Waits()
		}
		retry := c.Retry
		if retry == nil { // of this call, of a store that has no line
			retry = c.given.Retry
		}
		wait, again := retry(n)
		if !again {
			return nil, err
		}
		if _ = nap.For(c.Waiting, wait); c.Waiting.Err() != nil {
			return nil, Ended(c.Waiting)
		}
	}
}
