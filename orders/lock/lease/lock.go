package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Lock is held from TryAcquire or Acquire until its Context ends. A nil Lock
// counts as one that is lost: its Context has ended, and Release returns ErrExpired.
type Lock struct {
	leases *Leases
	key    string
	token  string
	ctx    context.Context
	cancel context.CancelCauseFunc
	since  time.Time // when it was acquired

	mu      sync.Mutex
	renewed time.Time   // when the last request that renewed it was sent
	until   time.Time   // the store has it at least until then
	timer   *time.Timer // fires at the deadline
	failure error       // of the last renewal, nil if it succeeded
	ended   bool

	releasing sync.Mutex
	release   release
}

// noLock is a lock that was lost before it was held: what a nil Lock stands for.
var noLock = func() *Lock {
	l := &Lock{leases: &Leases{}}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.cancel(fmt.Errorf("%w: %w", ErrLost, ErrExpired))
	return l
}()

// orNone is l, or noLock.
func (l *Lock) orNone() *Lock {
	if l == nil {
		return noLock
	}
	return l
}

// Key is the key of the lock, as it was given.
func (l *Lock) Key() string { return l.orNone().key }

// Token tells this holder from every other. It says nothing about order, so it is
// no fencing token (package fence has those).
func (l *Lock) Token() string { return l.orNone().token }

// Lease is how long the store keeps the lock without a renewal.
func (l *Lock) Lease() time.Duration { return l.orNone().leases.Config.Lease }

// Context is for the work that the lock protects. It ends when the lock is released
// or lost. When the lock is lost, it ends before the store could give the lock to
// another. context.Cause is ErrReleased, or ErrLost with a reason.
func (l *Lock) Context() context.Context { return l.orNone().ctx }

// Do runs task with a context that ends with the lock or with ctx.
func (l *Lock) Do(ctx context.Context, task func(context.Context) error) error {
	both, cancel := context.WithCancelCause(l.Context())
	defer cancel(context.Canceled)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	if err := task(both); err != nil {
		return fmt.Errorf("under lock %q: %w", l.Key(), err)
	}
	return nil
}

// Extend renews the lock now: it is held for one lease from now, not one lease more. It
// is for a program without Run, or before a step that needs most of a lease. It returns
// ErrExpired or ErrNotMine when the store says that the lock is lost, and the cause once
// Context has ended. After any other error the lock is held as long as it was before.
func (l *Lock) Extend(ctx context.Context) error {
	if l.Context().Err() != nil {
		return fmt.Errorf("extend %q: %w", l.Key(), context.Cause(l.Context()))
	}
	if err := l.leases.renew(ctx, []*Lock{l})[0]; err != nil {
		return fmt.Errorf("extend %q: %w", l.key, err)
	}
	if l.ctx.Err() != nil { // before the answer came
		return fmt.Errorf("extend %q: %w", l.key, context.Cause(l.ctx))
	}
	return nil
}

// deadline is when the context ends, unless the lock is renewed before.
func (l *Lock) deadline() time.Time {
	if longest := l.leases.Config.MaxHold; longest > 0 && l.since.Add(longest).Before(l.until) {
		return l.since.Add(longest)
	}
	return l.until
}

// extend moves the deadline after a renewal that was sent at the given time: never
// back, where Run and Extend are at work at once.
func (l *Lock) extend(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || sent.Before(l.renewed) {
		return
	}
	l.renewed, l.failure = sent, nil
	l.until = sent.Add(l.leases.Config.Lease - l.leases.Config.Drift)
	l.timer.Reset(time.Until(l.deadline()))
}

// fail notes that a renewal got no answer: the lock is held until its deadline,
// and Run keeps trying. It reports whether this is the first failure in a row.
func (l *Lock) fail(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.failure == nil
	l.failure = err
	return first
}

// expire runs when the timer fires. A renewal may have moved the deadline in
// the same instant.
func (l *Lock) expire() {
	l.mu.Lock()
	now, failure := time.Now(), l.failure
	early, leased := now.Before(l.deadline()), now.Before(l.until)
	l.mu.Unlock()
	switch {
	case early:
	case leased:
		l.leases.lose(l, ErrMaxHold)
	case failure != nil:
		l.leases.lose(l, fmt.Errorf("%w: %w", ErrRenewal, failure))
	default:
		l.leases.lose(l, ErrExpired)
	}
}

// end ends the context, once, and the renewals with it.
func (l *Lock) end(cause error) bool {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return false
	}
	l.ended = true
	if l.timer != nil {
		l.timer.Stop()
	}
	if errors.Is(cause, ErrNotMine) || errors.Is(cause, ErrExpired) {
		l.until = time.Time{} // the store has said so: Release must not trust the clock
	}
	l.mu.Unlock()
	// The context first: nothing else about the loss may be seen before it.
	l.cancel(cause)
	l.leases.forget(l)
	return true
}

// due reports whether a third of the lease has gone since the last renewal.
func (l *Lock) due(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Sub(l.renewed) >= l.leases.Config.Lease/3
}

// running reports whether the store must still have this lock, by our clock.
func (l *Lock) running() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until)
}
