// Package turn lines up the goroutines of one process that want the same lock,
// so that only the first of them talks to the store.
package turn

import (
	"context"
	"slices"
	"sync"
)

// Turns are the lines, by key. The zero value is ready. It is safe for
// concurrent use.
type Turns struct {
	mu sync.Mutex
	// lines has a key while somebody has its turn, with those who wait.
	lines map[string][]chan struct{}
}

// Try takes the turn at key if nobody has it. Who has it calls Done.
func (t *Turns) Try(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.try(key)
}

func (t *Turns) try(key string) bool {
	if _, taken := t.lines[key]; taken {
		return false
	}
	if t.lines == nil {
		t.lines = make(map[string][]chan struct{})
	}
	t.lines[key] = nil
	return true
}

// Take is Try that waits, in order of arrival, until ctx ends; then it returns
// the context's cause.
func (t *Turns) Take(ctx context.Context, key string) error {
	turn := t.join(key)
	if turn == nil {
		return nil
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	if !t.leave(key, turn) {
		t.Done(key) // it had come in the same instant
	}
	return context.Cause(ctx)
}

// join stands in line, or takes the turn if nobody has it: nil then.
func (t *Turns) join(key string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.try(key) {
		return nil
	}
	turn := make(chan struct{})
	t.lines[key] = append(t.lines[key], turn)
	return turn
}

// leave reports whether turn was still in line.
func (t *Turns) leave(key string, turn chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	place := slices.Index(t.lines[key], turn)
	if place < 0 {
		return false
	}
	t.lines[key] = slices.Delete(t.lines[key], place, place+1)
	return true
}

// Done gives the turn at key to the first in line.
func (t *Turns) Done(key string) {
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

// Waiting is how many wait at key for their turn or have it.
func (t *Turns) Waiting(key string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	line, taken := t.lines[key]
	if !taken {
		return 0
	}
	return len(line) + 1
}
