package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Call describes one TryAcquire or Acquire to the store.
type Call struct {
	*Leases // the Leases of the client, with the Config of this call
	Ctx     context.Context
	Waiting context.Context // nil for TryAcquire; ends with Ctx, or with ErrStopped when Run returns
	Key     string
	began   time.Time
}

func (ls *Leases) call(ctx context.Context, key string, options []Option) (*Call, error) {
	c := &Call{Leases: ls, Ctx: ctx, Key: key, began: time.Now()}
	if len(options) == 0 {
		return c, nil
	}
	cfg := ls.given
	for _, option := range options {
		option(&cfg)
	}
	c.Leases = &Leases{Config: cfg.WithDefaults(), shared: ls.shared}
	return c, cfg.Validate()
}

// TryAcquire implements Locker.TryAcquire; take makes the attempt.
func (ls *Leases) TryAcquire(ctx context.Context, key string, options []Option, take func(*Call) (*Lock, error)) (*Lock, error) {
	c, err := ls.call(ctx, key, options)
	var l *Lock
	if err == nil {
		l, err = c.attempt(take)
	}
	if err != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, err)
	}
	return l, nil
}

// attempt calls take. If the context has ended before take returns a lock, attempt
// releases the lock.
func (c *Call) attempt(take func(*Call) (*Lock, error)) (*Lock, error) {
	if err := c.Ready(c.Ctx); err != nil {
		return nil, err
	}
	l, err := take(c)
	if err != nil || c.Ctx.Err() == nil {
		return l, err
	}
	if err = l.Release(c.Ctx); errors.Is(err, ErrUnknown) {
		return nil, fmt.Errorf("%w: %w", err, Ended(c.Ctx))
	}
	return nil, Ended(c.Ctx)
}

// Acquire implements Locker.Acquire; take waits for the lock. Callers with the same key
// wait for their turn before take, so that only one of them at a time sends requests.
func (ls *Leases) Acquire(ctx context.Context, key string, options []Option, take func(*Call) (*Lock, error)) (*Lock, error) {
	c, err := ls.call(ctx, key, options)
	if err == nil {
		err = c.awaitRun()
	}
	var l *Lock
	if err == nil {
		waiting, cancel := context.WithCancelCause(ctx)
		defer cancel(context.Canceled)
		defer context.AfterFunc(ls.life, func() { cancel(ErrStopped) })()
		c.Waiting = waiting
		l, err = c.inTurn(take)
	}
	if err != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, err)
	}
	return l, nil
}

// inTurn waits for the caller's turn and calls take. If the context ends during the wait,
// the error is ErrHeld joined with the context's error.
func (c *Call) inTurn(take func(*Call) (*Lock, error)) (l *Lock, err error) {
	if err = c.turns.take(c.Waiting, c.Key); err == nil {
		defer c.turns.done(c.Key)
		l, err = c.attempt(take)
	}
	if c.Ctx.Err() != nil && errors.Is(err, c.Ctx.Err()) && !errors.Is(err, ErrUnknown) {
		err = fmt.Errorf("%w: %w", ErrHeld, err)
	}
	return l, err
}

// awaitRun waits briefly for Run to begin, because a program starts Run in a goroutine.
func (c *Call) awaitRun() error {
	if c.started.Load() {
		return nil
	}
	select {
	case <-c.running:
		return nil
	case <-c.Ctx.Done():
		return Ended(c.Ctx)
	case <-time.After(min(c.Timeout, time.Second)):
		return ErrNotRunning
	}
}

// Waits calls Hooks.Waiting.
func (c *Call) Waits() {
	if c.Hooks.Waiting != nil {
		c.Hooks.Waiting(c.Ctx, c.Key)
	}
}

// Hold begins a lease that the store has granted. sent is the time at which the request was
// sent. If several requests may have been granted, sent belongs to the oldest of them.
//
// Hold returns ErrExpired if the lease is already over, and ErrStopped after Run has
// returned. In both cases the caller must release the lock in the store.
func (c *Call) Hold(token string, sent time.Time) (*Lock, error) {
	now := time.Now()
	l := &Lock{leases: c.Leases, key: c.Key, token: token, renewed: sent, since: now}
	l.until = sent.Add(c.Lease - c.Drift)
	if !now.Before(l.until) {
		return nil, fmt.Errorf("the store answered after the end of the lease: %w", ErrExpired)
	}
	// The lock's context keeps the values of the caller's context, such as a trace, but
	// not its cancellation, which bounds only the wait.
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(c.Ctx))
	if !c.keep(l) {
		l.cancel(ErrStopped)
		return nil, ErrStopped
	}
	l.mu.Lock() // the timer may fire before l.timer is assigned
	l.timer = time.AfterFunc(time.Until(l.deadline()), l.expire)
	l.mu.Unlock()
	if c.Hooks.Acquired != nil {
		c.Hooks.Acquired(l.ctx, l.key, now.Sub(c.began))
	}
	return l, nil
}
