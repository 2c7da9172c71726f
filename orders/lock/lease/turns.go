package lease

import (
	"context"
	"sync"
)

// turns admits one caller per key at a time, in order of arrival: the Go runtime serves
// the goroutines that block in a send on one channel in that order.
type turns struct {
	mu   sync.Mutex
	keys map[string]*turn
}

type turn struct {
	taken   chan struct{} // full while a caller has the turn
	callers int           // callers that have the turn or wait for it
}

// take waits for the turn at key. The caller ends its turn with done.
func (t *turns) take(ctx context.Context, key string) error {
	t.mu.Lock()
	k := t.keys[key]
	if k == nil {
		k = &turn{taken: make(chan struct{}, 1)}
		t.keys[key] = k
	}
	k.callers++
	t.mu.Unlock()
	select {
	case k.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		t.leave(key, k)
		return Ended(ctx)
	}
}

// done passes the turn on to the next caller.
func (t *turns) done(key string) {
	t.mu.Lock()
	k := t.keys[key]
	t.mu.Unlock()
	<-k.taken
	t.leave(key, k)
}

func (t *turns) leave(key string, k *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.callers--; k.callers == 0 {
		delete(t.keys, key)
	}
}
