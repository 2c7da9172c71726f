package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// Each hook is called when its thing happens, and only then.
func TestHooks(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		var mu sync.Mutex
		var heard []string
		say := func(what string) { mu.Lock(); heard = append(heard, what); mu.Unlock() }
		c := s.idle(t, Config{Lease: time.Hour, Timeout: soon, Hooks: Hooks{
			Waiting:  func(context.Context, string) { say("waiting") },
			Acquired: func(context.Context, string, time.Duration) { say("acquired") },
			Renewed:  func(_ context.Context, _ string, err error) { say("renewed"); fatal(t, err) },
			Lost: func(_ context.Context, _ string, cause error) {
				if errors.Is(cause, ErrNotMine) {
					say("lost")
				}
			},
			Released: func(_ context.Context, _ string, _ time.Duration, err error) { say("released"); fatal(t, err) },
		}})
		ctx := background(t)
		l, err := c.Acquire(ctx, "lock:{sku}")
		fatal(t, err)
		c.leases.renew(ctx, []*Lock{l})
		waiting, cancel := context.WithCancel(ctx)
		gone := make(chan error)
		go func() { _, err := c.Acquire(waiting, "lock:{sku}"); gone <- err }()
		eventually(t, "in line", func() bool { return inLine(t, s, "lock:{sku}") == 1 })
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		fatal(t, l.Release(ctx))
		fatal(t, l.Release(ctx))
		l, err = c.TryAcquire(ctx, "lock:{sku}")
		fatal(t, err)
		fatal(t, s.connect(t).Set(ctx, "lock:{sku}", "thief", 0).Err())
		c.leases.renew(ctx, []*Lock{l})
		want := []string{"acquired", "renewed", "waiting", "released", "acquired", "lost"}
		if mu.Lock(); !slices.Equal(heard, want) {
			t.Errorf("heard %v, want %v", heard, want)
		}
		mu.Unlock()
	})
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
