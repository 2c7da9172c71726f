// Package turn lines up the goroutines of one process that want the same lock,
// so that only the first of them talks to the store.
package turn

import (
	"context"
	"sync"
)

// Turns are the lines, by key. The zero value is ready. It is safe for
// concurrent use.
type Turns struct {
	mu    sync.Mutex
	lines map[string]*line
}

type line struct {
	turn chan struct{} // holds one: its owner has the turn
	in   int           // how many wait or have it, guarded by mu
}

// Take waits for the caller's turn at key, in order of arrival, until ctx ends;
// then it returns the context's cause. done ends the turn.
func (t *Turns) Take(ctx context.Context, key string) (done func(), err error) {
	l := t.join(key)
	select {
	case l.turn <- struct{}{}:
		return func() { <-l.turn; t.leave(key, l) }, nil
	case <-ctx.Done():
		t.leave(key, l)
		return nil, context.Cause(ctx)
	}
}

// Waiting is how many wait at key for their turn or have it.
func (t *Turns) Waiting(key string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lines[key]; l != nil {
		return l.in
	}
	return 0
}

func (t *Turns) join(key string) *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[key]
	if l == nil {
		if t.lines == nil {
			t.lines = make(map[string]*line)
		}
		// The runtime serves senders in the order in which they came.
		l = &line{turn: make(chan struct{}, 1)}
		t.lines[key] = l
	}
	l.in++
	return l
}

func (t *Turns) leave(key string, l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.in--; l.in == 0 {
		delete(t.lines, key)
	}
}
