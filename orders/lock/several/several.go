// Package several holds several locks as one.
package several

import (
	"context"
	"errors"
	"slices"

	"flashsale/orders/lock/lease"
)

// A Set is several locks held as one.
type Set struct {
	locks  []*lease.Lock
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Acquire takes the locks of all keys, or none, waiting until ctx ends. Keys
// are taken one after another in sorted order, whatever order they are given in:
// two callers that want the same ones can't each hold what the other waits for.
// In a Redis Cluster they may lie anywhere.
//
// What has been taken is given back on failure; a caller that holds a lock of
// its own while it calls this is outside of the order, and can deadlock.
func Acquire(ctx context.Context, locks lease.Locker, keys ...string) (*Set, error) {
	return takeAll(ctx, locks.Acquire, keys)
}

// TryAcquire is Acquire without waiting.
func TryAcquire(ctx context.Context, locks lease.Locker, keys ...string) (*Set, error) {
	return takeAll(ctx, locks.TryAcquire, keys)
}

func takeAll(ctx context.Context, take func(context.Context, string) (*lease.Lock, error), keys []string) (*Set, error) {
	s := &Set{}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		l, err := take(ctx, key)
		if err != nil {
			return nil, errors.Join(err, s.Release(ctx))
		}
		s.locks = append(s.locks, l)
		context.AfterFunc(l.Context(), func() { s.cancel(context.Cause(l.Context())) })
	}
	if s.ctx.Err() != nil { // the first was lost while the last was waited for
		return nil, errors.Join(context.Cause(s.ctx), s.Release(ctx))
	}
	return s, nil
}

// Locks are the set's, by key.
func (s *Set) Locks() []*lease.Lock { return slices.Clone(s.locks) }

// Context ends, with its cause, when the first of the locks is released or lost.
func (s *Set) Context() context.Context { return s.ctx }

// Release releases all locks, the last one first, and joins their errors.
func (s *Set) Release(ctx context.Context) error {
	s.cancel(lease.ErrReleased)
	var errs []error
	for _, l := range slices.Backward(s.locks) {
		errs = append(errs, l.Release(ctx))
	}
	return errors.Join(errs...)
}
