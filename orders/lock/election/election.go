// Package election has one of many processes do something: Once for work on a
// schedule, Lead for work that has a leader.
package election

import (
	"context"
	"errors"
	"time"

	"flashsale/orders/lock/internal/nap"
	"flashsale/orders/lock/lease"
)

// Once runs task unless another process is running it: for work that several
// nodes have on their schedule and one at a time should do. It reports whether
// the task ran. The task's context ends with the lock or with ctx.
//
// Two nodes whose schedules differ may run it one after the other: the task must
// see for itself that nothing is left to do.
func Once(ctx context.Context, locks lease.Locker, key string, task func(context.Context) error, options ...lease.Option) (ran bool, err error) {
	l, err := locks.TryAcquire(ctx, key, options...)
	if errors.Is(err, lease.ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(l.Do(ctx, task), l.Release(ctx))
}

// Lead runs task while this process is the leader, which is who holds key. It
// waits to become that, runs task, and when the lock is lost or the task returns
// it waits anew, until ctx ends; then it gives up the lead and returns nil. What
// went wrong is told to failed, which may be nil; the next attempt comes a
// second later, so that the others have their turn. Who leads, a lock.Client's Observe
// tells, if the option Note says it here.
func Lead(ctx context.Context, locks lease.Locker, key string, task func(context.Context) error, failed func(error), options ...lease.Option) error {
	for {
		err := lead(ctx, locks, key, task, options)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, lease.ErrStopped) {
			return err
		}
		if err != nil && failed != nil {
			failed(err)
		}
		if nap.For(ctx, time.Second) != nil {
			return nil
		}
	}
}

func lead(ctx context.Context, locks lease.Locker, key string, task func(context.Context) error, options []lease.Option) error {
	l, err := locks.Acquire(ctx, key, options...)
	if err != nil {
		return err
	}
	err = l.Do(ctx, task)
	lost := context.Cause(l.Context())
	// A lock that was lost may be there still: where Run has ended with the same
	// context, nobody else gives it up.
	released := l.Release(ctx)
	if errors.Is(lost, lease.ErrLost) {
		return errors.Join(err, lost)
	}
	return errors.Join(err, released)
}
