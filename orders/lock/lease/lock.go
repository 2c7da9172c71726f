package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Lock is held from TryAcquire or Acquire until its Context ends. A nil Lock behaves
// like a lost one: its Context has ended, and Release returns ErrExpired.
type Lock struct {
	leases *Leases
	key    string
	token  string
	ctx    context.Context
	cancel context.CancelCauseFunc
	since  time.Time // time of the acquisition

	mu      sync.Mutex
	renewed time.Time   // time at which the last successful renewal was sent
	until   time.Time   // the store keeps the lock at least until this time
	timer   *time.Timer // fires at the deadline
	failure error       // error of the last renewal, nil if the renewal succeeded
	ended   bool

	releasing sync.Mutex
	release   release
}

// noLock is the lost lock that a nil Lock stands for.
var noLock = func() *Lock {
	l := &Lock{leases: &Leases{}}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.cancel(fmt.Errorf("%w: %w", ErrLost, ErrExpired))
	return l
}()

func (l *Lock) orNone() *Lock {
	if l == nil {
		return noLock
	}
	return l
}

// Key returns the key of the lock, as it was passed to TryAcquire or Acquire.
func (l *Lock) Key() string { return l.orNone().key }

// Token returns the random text that identifies this holder to the store. It is not a
// fencing token, because tokens have no order: see package fence.
func (l *Lock) Token() string { return l.orNone().token }

// Lease returns the time for which the store keeps the lock without a renewal.
func (l *Lock) Lease() time.Duration { return l.orNone().leases.Config.Lease }

// Context returns the context for the work that the lock protects. It ends when the lock
// is released, or before the store can grant the lock to another caller. Its
// context.Cause is ErrReleased, or ErrLost with a reason.
func (l *Lock) Context() context.Context { return l.orNone().ctx }

// Do runs task with a context that ends when the lock's Context or ctx ends.
func (l *Lock) Do(ctx context.Context, task func(context.Context) error) error {
	both, cancel := context.WithCancelCause(l.Context())
	defer cancel(context.Canceled)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	if err := task(both); err != nil {
		return fmt.Errorf("under lock %q: %w", l.Key(), err)
	}
	return nil
}

// Extend renews the lock for one lease from now. It serves programs without Run, and
// steps that need most of a lease. If the store no longer has the lock, Extend returns
// ErrExpired or ErrNotMine; if Context has ended, it returns the cause. Any other error
// leaves the deadline of the lock as it was.
func (l *Lock) Extend(ctx context.Context) error {
	if l.Context().Err() != nil {
		return fmt.Errorf("extend %q: %w", l.Key(), context.Cause(l.Context()))
	}
	if err := l.leases.renew(ctx, []*Lock{l})[0]; err != nil {
		return fmt.Errorf("extend %q: %w", l.key, err)
	}
	if l.ctx.Err() != nil { // the context ended before the answer arrived
		return fmt.Errorf("extend %q: %w", l.key, context.Cause(l.ctx))
	}
	return nil
}

// deadline returns the time at which the context ends without a renewal.
func (l *Lock) deadline() time.Time {
	if longest := l.leases.Config.MaxHold; longest > 0 && l.since.Add(longest).Before(l.until) {
		return l.since.Add(longest)
	}
	return l.until
}

// extend moves the deadline after a renewal that was sent at the given time. Run and
// Extend may renew at the same time, so extend ignores the older of two renewals.
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

// fail records that a renewal received no answer, and reports whether this is the first
// failure since the last success. The lock stays held until its deadline, and Run retries.
func (l *Lock) fail(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.failure == nil
	l.failure = err
	return first
}

// expire runs when the timer fires, and ends the context unless a renewal has just moved
// the deadline.
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

// end cancels the context and stops renewing the lock. It reports whether this call was
// the first.
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
		l.until = time.Time{} // the store has reported the loss; Release must not trust the clock
	}
	l.mu.Unlock()
	// The context ends first, so that no other effect of the loss is visible before it.
	l.cancel(cause)
	l.leases.forget(l)
	return true
}

// due reports whether a third of the lease has passed since the last renewal.
func (l *Lock) due(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Sub(l.renewed) >= l.leases.Config.Lease/3
}

// running reports whether, by the local clock, the store must still have this lock.
func (l *Lock) running() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until)
}
