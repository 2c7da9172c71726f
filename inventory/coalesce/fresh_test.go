package coalesce

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flashsale/loadtest/servers/servertest/check"
)

// However many ask, a value is made once per Age by one maker, and whoever is
// impatient waits for nobody.
func TestFreshIsMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		f := Fresh[int]{Age: time.Second, Make: func(context.Context) (int, error) {
			made++
			time.Sleep(100 * time.Millisecond) // by synctest's clock: the others come meanwhile
			return made, nil
		}}
		crowd := func(want int) {
			t.Helper()
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					if got, err := f.Get(t.Context()); got != want || err != nil {
						t.Errorf("got %d, %v, want %d", got, err, want)
					}
				})
			}
			all.Wait()
		}
		crowd(1)
		time.Sleep(time.Second - time.Nanosecond)
		crowd(1)
		time.Sleep(time.Nanosecond)
		first := make(chan struct{})
		go func() { defer close(first); crowd(2) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		check.Is(t, check.Err(f.Get(ctx)), context.Canceled)
		<-first
		f.Forget()
		crowd(3)
	})
}

// An error goes to those who waited for it, and the next one tries anew. The
// first caller's leaving does not end what the others wait for.
func TestFreshFails(t *testing.T) {
	down := errors.New("down")
	fail := true
	f := Fresh[int]{Age: time.Hour, Make: func(ctx context.Context) (int, error) {
		if fail {
			return 0, down
		}
		return 1, ctx.Err()
	}}
	check.Is(t, check.Err(f.Get(t.Context())), down)
	fail = false
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := f.Get(ctx); got != 1 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	f.Forget()
	f.Make = func(context.Context) (int, error) { panic("oh") }
	func() {
		defer func() { _ = recover() }()
		_, _ = f.Get(t.Context())
	}()
	f.Make = func(context.Context) (int, error) { return 2, nil }
	if got, err := f.Get(t.Context()); got != 2 || err != nil {
		t.Errorf("after a panic: %d, %v", got, err)
	}
}
