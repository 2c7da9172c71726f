package coalesce

import (
	"context"
	"sync"
)

// Tasks counts goroutines so that their owner can wait for them. Unlike with a
// sync.WaitGroup, goroutines may start while the owner waits. The zero value is ready for
// use.
type Tasks struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // closed when count reaches 0; nil without a waiter
}

// Go runs f in a goroutine.
func (t *Tasks) Go(f func()) {
	t.begin()
	go func() {
		defer t.done()
		f()
	}()
}

// begin and done enclose a task that runs in the calling goroutine.
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
