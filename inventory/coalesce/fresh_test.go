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

// A value is made once per Age, for any number of callers. A caller whose context ends
// does not wait.
func TestFreshIsMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		f := Fresh[int]{Age: time.Second, Make: func(context.Context) (int, error) {
			made++
			time.Sleep(100 * time.Millisecond) // on the fake clock; the other callers arrive in this time
			return made, nil
		}}
		crowd := func(want int) {
			t.Helper()
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					if got, err := f.Get(t.Context()); got != want || err != nil {
						t.Errorf("shared value: got %d, error %v, want %d", got, err, want)
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

// The callers that waited share an error, and the next caller tries again. Make does not
// end with the context of the first caller.
func TestFreshError(t *testing.T) {
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
		t.Errorf("shared value after an error: got %d, error %v, want 1", got, err)
	}
	f.Forget()
	f.Make = func(context.Context) (int, error) { panic("oh") }
	func() {
		defer func() { _ = recover() }()
		_, _ = f.Get(t.Context())
	}()
	f.Make = func(context.Context) (int, error) { return 2, nil }
	if got, err := f.Get(t.Context()); got != 2 || err != nil {
		t.Errorf("shared value after a panic: got %d, error %v, want 2", got, err)
	}
}
