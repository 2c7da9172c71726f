package lease

import (
	"errors"
	"time"

	"flashsale/orders/lock/internal/nap"
)

// A Retry returns the time to wait before the n-th retry, counted from 1. If ok is false, there
// is no n-th retry, and Acquire returns ErrHeld. The result should depend only on n, because many
// calls share one Retry.
type Retry func(n int) (wait time.Duration, ok bool)

// Every retries after each d, without a limit.
func Every(d time.Duration) Retry {
	return func(int) (time.Duration, bool) { return d, true }
}

// Backoff doubles the wait with each retry, from first up to limit. Each wait is shortened
// at random by up to half, so that callers that failed together do not retry together.
func Backoff(first, limit time.Duration) Retry {
	return func(n int) (time.Duration, bool) {
		d := limit
		if n <= 62 && first<<(n-1) > 0 && first<<(n-1)>>(n-1) == first {
			d = min(first<<(n-1), limit)
		}
		return d/2 + nap.Jitter(d/2), true
	}
}

// Poll calls try once for TryAcquire. For Acquire it repeats try by Config.Retry while try
// returns ErrHeld, until the context ends or the policy allows no further retry.
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
		if retry == nil { // an option removed the policy, and this store has no wait queue
			retry = c.given.Retry
		}
		wait, ok := retry(n)
		if !ok {
			return nil, err
		}
		if _ = nap.For(c.Waiting, wait); c.Waiting.Err() != nil {
			return nil, Ended(c.Waiting)
		}
	}
}
