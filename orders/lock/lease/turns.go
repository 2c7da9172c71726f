package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// TryAcquire is a Locker's, with take for its one attempt.
func (ls *Leases) TryAcquire(ctx context.Context, key string, take func(began time.Time) (*Lock, error)) (*Lock, error) {
	l, err := ls.attempt(ctx, time.Now(), take)
	if err != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, err)
	}
	return l, nil
}

// attempt gives a lock back that came after ctx had ended: nobody waits for it.
func (ls *Leases) attempt(ctx context.Context, began time.Time, take func(began time.Time) (*Lock, error)) (*Lock, error) {
	if err := ls.Ready(ctx); err != nil {
		return nil, err
	}
	l, err := take(began)
	if err != nil || ctx.Err() == nil {
		return l, err
	}
	if err = l.Release(ctx); errors.Is(err, ErrUnknown) {
		return nil, fmt.Errorf("%w: %w", err, Ended(ctx))
	}
	return nil, Ended(ctx)
}

// Acquire is a Locker's, with take for its wait. Goroutines of one process that
// want the same key stand in line before it, so that only the first of them talks
// to the store.
func (ls *Leases) Acquire(ctx context.Context, key string, take func(began time.Time) (*Lock, error)) (*Lock, error) {
	began := time.Now()
	err := ls.awaitRun(ctx)
	var l *Lock
	if err == nil {
		l, err = ls.inTurn(ctx, key, func() (*Lock, error) { return ls.attempt(ctx, began, take) })
	}
	if err != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, err)
	}
	return l, nil
}

// inTurn waits, with ErrHeld and Ended where ctx ends meanwhile.
func (ls *Leases) inTurn(ctx context.Context, key string, take func() (*Lock, error)) (l *Lock, err error) {
	if err = ls.turns.take(ctx, ls.Stopped(), key); err == nil {
		defer ls.turns.done(key)
		l, err = take()
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, ErrUnknown) {
		err = fmt.Errorf("%w: %w", ErrHeld, err)
	}
	return l, err
}

// awaitRun waits a moment for Run, which a program starts in a goroutine of its own.
func (ls *Leases) awaitRun(ctx context.Context) error {
	patience := time.NewTimer(min(ls.Timeout, time.Second))
	defer patience.Stop()
	select {
	case <-ls.running:
		return ls.Ready(ctx)
	case <-ctx.Done():
		return Ended(ctx)
	case <-patience.C:
		return ErrNotRunning
	}
}

// Waits tells Hooks that an Acquire goes on to wait for what someone else holds.
func (ls *Leases) Waits(ctx context.Context, key string) {
	if ls.Hooks.Waiting != nil {
		ls.Hooks.Waiting(ctx, key)
	}
}

// Callers is how many callers of this process wait for their turn at key, or have
// it and wait for the store.
func (ls *Leases) Callers(key string) int {
	ls.turns.mu.Lock()
	defer ls.turns.mu.Unlock()
	line, taken := ls.turns.lines[key]
	if !taken {
		return 0
	}
	return len(line) + 1
}

// UntilStopped is ctx that also ends, with ErrStopped, when Run has returned.
func (ls *Leases) UntilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(ls.life, func() { cancel(ErrStopped) })
	return ctx, func() { stop(); cancel(context.Canceled) }
}

// turns has a key while somebody has its turn, with those who wait.
type turns struct {
	mu    sync.Mutex
	lines map[string][]chan struct{}
}

// take waits for the turn at key, in order of arrival. Who has it calls done.
func (t *turns) take(ctx context.Context, stopped <-chan struct{}, key string) (err error) {
	turn := t.join(key)
	if turn == nil {
		return nil
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		err = Ended(ctx)
	case <-stopped:
		err = ErrStopped
	}
	if !t.leave(key, turn) {
		t.done(key) // it had come in the same instant
	}
	return err
}

// join stands in line, or takes the turn if nobody has it: nil then.
func (t *turns) join(key string) (turn chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line, taken := t.lines[key]
	if taken {
		turn = make(chan struct{})
		line = append(line, turn)
	}
	t.lines[key] = line
	return turn
}

// leave reports whether turn was still in line.
func (t *turns) leave(key string, turn chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	place := slices.Index(t.lines[key], turn)
	if place < 0 {
		return false
	}
	t.lines[key] = slices.Delete(t.lines[key], place, place+1)
	return true
}

// done gives the turn at key to the first in line.
func (t *turns) done(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.lines[key]
	if len(line) == 0 {
		delete(t.lines, key)
		return
	}
	close(line[0])
	t.lines[key] = line[1:]
}
