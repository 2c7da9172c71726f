package lease

import (
	"context"
	"slices"
	"sync"
)

// turns has a key while somebody has its turn, with those who wait.
type turns struct {
	mu    sync.Mutex
	lines map[string][]chan struct{}
}

// take waits for the turn at key, in order of arrival. Who has had it calls done.
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
