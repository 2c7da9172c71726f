package lock

import (
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/lease"
)

func TestBackoff(t *testing.T) {
	r := lease.Backoff(10*time.Millisecond, time.Second)
	for n, full := range map[int]time.Duration{1: 10 * time.Millisecond, 3: 40 * time.Millisecond, 8: time.Second, 1000: time.Second} {
		different := map[time.Duration]bool{}
		for range 50 {
			d, ok := r(n)
			if !ok || d < full/2 || d > full {
				t.Errorf("retry %d: got %v, %t, want %v to %v", n, d, ok, full/2, full)
			}
			different[d] = true
		}
		if len(different) < 10 {
			t.Errorf("retry %d: got %d different waits in 50, want jitter", n, len(different))
		}
	}
}

// A Retry counts the retries of each call separately.
func TestRetryStopsPerCall(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		ctx := check.Context(t)
		twice := func(n int) (time.Duration, bool) { return time.Millisecond, n <= 2 }
		c := s.client(t, lease.Config{Retry: twice})
		check.Must(t, check.Err(c.TryAcquire(ctx, "lock:{sku}")))
		asked := count(c.store.RDB, c.store.Scripts.Acquire)
		for call := 1; call <= 3; call++ {
			check.Is(t, check.Err(c.Acquire(ctx, "lock:{sku}")), lease.ErrHeld)
			if n := asked.Load(); n != int64(3*call) {
				t.Errorf("acquire with retries: got %d requests in %d calls, want 3 per call", n, call)
			}
		}
	})
}
