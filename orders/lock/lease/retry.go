package lease

import (
	"context"
	"errors"
	"time"

	"flashsale/orders/lock/internal/nap"
)

// A Retry says how long to wait before the n-th retry, counted from 1, or that
// there shall be none: Acquire returns ErrHeld then. It is a function of n
// alone, so that calls which share one do not share a state.
type Retry func(n int) (wait time.Duration, again bool)

// Every asks again after d, for ever.
func Every(d time.Duration) Retry {
	return func(int) (time.Duration, bool) { return d, true }
}

// Backoff doubles its wait from first up to most. Each wait is between half of
// that and all of it, at random, so that those who lost together do not come
// back together.
func Backoff(first, most time.Duration) Retry {
	return func(n int) (time.Duration, bool) {
		d := most
		if n <= 62 && first<<(n-1) > 0 && first<<(n-1)>>(n-1) == first {
			d = min(first<<(n-1), most)
		}
		return d/2 + nap.Jitter(d/2), true
	}
}

// Limit ends r after so many retries.
func Limit(retries int, r Retry) Retry {
	return func(n int) (time.Duration, bool) {
		if n > retries {
			return 0, false
		}
		return r(n)
	}
}

// An Asker is a Locker's part that waits by asking again, in no order.
type Asker struct {
	leases *Leases
	try    func(ctx context.Context, key string, began time.Time) (*Lock, error)
}

// NewAsker returns an Asker whose attempts are by try, by the policy Config.Retry.
func NewAsker(leases *Leases, try func(ctx context.Context, key string, began time.Time) (*Lock, error)) *Asker {
	return &Asker{leases, try}
}

// Run is the Locker's.
func (a *Asker) Run(ctx context.Context) error { return a.leases.Run(ctx) }

// TryAcquire is the Locker's.
func (a *Asker) TryAcquire(ctx context.Context, key string) (*Lock, error) {
	return a.leases.TryAcquire(ctx, key, func(began time.Time) (*Lock, error) { return a.try(ctx, key, began) })
}

// Acquire is the Locker's.
func (a *Asker) Acquire(ctx context.Context, key string) (*Lock, error) {
	return a.leases.Acquire(ctx, key, func(began time.Time) (*Lock, error) {
		return a.leases.Poll(ctx, key, func() (*Lock, error) { return a.try(ctx, key, began) })
	})
}

// Poll calls try until it returns something else than ErrHeld, ctx ends, or the
// policy will not have another retry: what Acquire is with Config.Retry.
func (ls *Leases) Poll(ctx context.Context, key string, try func() (*Lock, error)) (*Lock, error) {
	for n := 1; ; n++ {
		l, err := try()
		if !errors.Is(err, ErrHeld) {
			return l, err
		}
		if n == 1 {
			ls.Waits(ctx, key)
		}
		wait, again := ls.Retry(n)
		if !again {
			return nil, err
		}
		waiting, stop := ls.UntilStopped(ctx)
		err = nap.For(waiting, wait)
		stop()
		switch {
		case ctx.Err() != nil:
			return nil, Ended(ctx)
		case err != nil:
			return nil, err
		}
	}
}
