package lease

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// TryAcquire is a Locker's, with take for its one attempt.
func (ls *Leases) TryAcquire(ctx context.Context, key string, take func(began time.Time) (*Lock, error)) (*Lock, error) {
	err := ls.Ready(ctx)
	var l *Lock
	if err == nil {
		l, err = take(time.Now())
	}
	if err != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, err)
	}
	return l, nil
}

// Acquire is a Locker's, with take for its wait. Goroutines of one process that
// want the same key stand in line before it, so that only the first of them talks
// to the store.
func (ls *Leases) Acquire(ctx context.Context, key string, take func(began time.Time) (*Lock, error)) (*Lock, error) {
	began := time.Now()
	if err := ls.turns.take(ctx, ls.Stopped(), key); err != nil {
		return nil, fmt.Errorf("acquire %q: %w", key, err)
	}
	defer ls.turns.done(key)
	return ls.TryAcquire(ctx, key, func(time.Time) (*Lock, error) { return take(began) })
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
		err = context.Cause(ctx)
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
