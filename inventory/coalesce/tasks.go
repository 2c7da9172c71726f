package coalesce

import (
	"context"
	"sync"
)

// Tasks are goroutines whose owner waits for them. Unlike those of a
// sync.WaitGroup they may begin while the owner waits. The zero value is ready.
type Tasks struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // closed when count comes to 0; nil while nobody waits
}

// Go runs f in a goroutine.
func (t *Tasks) Go(f func()) {
	t.begin()
	go func() {
		defer t.done()
		f()
	}()
}

// begin and done enclose a task in a goroutine that runs already.
func (t *Tasks) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
}

func (t *Tasks) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count--; t.count == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// Wait returns when no task runs, or with the context's error.
func (t *Tasks) Wait(ctx context.Context) error {
	t.mu.Lock()
	if t.count == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	idle := t.idle
	t.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
