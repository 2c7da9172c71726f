package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Once runs task unless another process is running it: for work that several
// nodes have on their schedule and one at a time should do. It reports whether
// the task ran. The task's context ends with the lock or with ctx.
//
// Two nodes whose schedules differ may run it one after the other: the task must
// see for itself that nothing is left to do.
func Once(ctx context.Context, locks Locker, key string, task func(context.Context) error) (ran bool, err error) {
	l, err := locks.TryAcquire(ctx, key)
	if errors.Is(err, ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(under(ctx, l, task), l.Release(ctx))
}

// Lead runs task while this process is the leader, which is who holds key. It
// waits to become that, runs task, and when the lock is lost or the task returns
// it waits anew, until ctx ends; then it gives up the lead and returns nil. What
// went wrong is told to failed, which may be nil; the next attempt comes a
// second later, so that the others have their turn.
func Lead(ctx context.Context, locks Locker, key string, task func(context.Context) error, failed func(error)) error {
	for {
		err := lead(ctx, locks, key, task)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, ErrStopped) {
			return err
		}
		if err != nil && failed != nil {
			failed(err)
		}
		if pause(ctx, nil, time.Second) != nil {
			return nil
		}
	}
}

func lead(ctx context.Context, locks Locker, key string, task func(context.Context) error) error {
	l, err := locks.Acquire(ctx, key)
	if err != nil {
		return err
	}
	err = under(ctx, l, task)
	if cause := context.Cause(l.Context()); errors.Is(cause, ErrLost) {
		return errors.Join(err, cause)
	}
	return errors.Join(err, l.Release(ctx))
}

// under runs task with a context that ends with the lock or with ctx.
func under(ctx context.Context, l *Lock, task func(context.Context) error) error {
	both, cancel := context.WithCancelCause(l.Context())
	defer cancel(context.Canceled)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	if err := task(both); err != nil {
		return fmt.Errorf("under lock %q: %w", l.Key(), err)
	}
	return nil
}
