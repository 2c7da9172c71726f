// Package election chooses one of several processes for a task: Once for a scheduled task,
// Lead for a task of a leader.
package election

import (
	"context"
	"errors"
	"time"

	"flashsale/orders/lock/internal/nap"
	"flashsale/orders/lock/lease"
)

// Once runs task unless another process is running it, and reports whether it ran task. The
// task's context ends when the lock is lost or ctx ends.
//
// Processes with slightly different clocks may run the task one after the other. The task
// must therefore check whether there is work to do.
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

// Lead runs task while this process is the leader. It waits for the lock of key, runs
// task, and releases the lock when task returns or the lock is lost. It then waits for a
// second, so that another process can become the leader, and starts over. When ctx ends,
// Lead returns nil. It returns ErrStopped if the locker's Run has returned.
//
// Lead passes other errors to failed, which may be nil. Set the Note option to make the
// leader visible to lock.Client.Observe.
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
	// Release even a lost lock. If Run ended with the same context, the store still has
	// the lock.
	released := l.Release(ctx)
	if errors.Is(lost, lease.ErrLost) {
		return errors.Join(err, lost)
	}
	return errors.Join(err, released)
}
