package ratelimit

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/coalesce"
	"flashsale/loadtest/servers/servertest/check"
)

// loaded loads the script, so that no call is sent twice.
func loaded(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	check.Must(t, takeScript.Load(t.Context(), client).Err())
}

// Six hundred concurrent callers cost five calls: two in flight, and the other callers in
// batches of 256. The broken twin makes a call for each caller.
func TestCallersShareCalls(t *testing.T) {
	const callers = 600
	examine := func(t *testing.T, client redis.UniversalClient, l *Limiter, ask func(Bucket) error, waiting func() bool) error {
		g := newDelay(client)
		var wg sync.WaitGroup
		errs := make(chan error, callers+2)
		start := func(from, to int) {
			for n := from; n < to; n++ {
				wg.Go(func() { errs <- ask(forBuyer(fmt.Sprint(n), parse(t, "1/h:1"))) })
			}
		}
		start(0, 1)
		check.Eventually(t, "the first call is in flight", func() bool { return g.holds() >= 1 })
		start(1, 2)
		check.Eventually(t, "the second call is in flight", func() bool { return g.holds() >= 2 })
		start(2, callers+2)
		check.Eventually(t, "all callers wait", func() bool { return waiting() || g.holds() == callers+2 })
		close(g.open)
		wg.Wait()
		close(errs)
		for err := range errs {
			check.OK(t, err)
		}
		calls, peak, keys := g.seen()
		if calls != 5 || peak > maxInFlight || keys > maxBatch {
			return fmt.Errorf("limiter's calls: got %d calls, at most %d at once, of up to %d keys, want 5 calls, within the bounds", calls, peak, keys)
		}
		return nil
	}
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		loaded(t, client)
		l := New(client, patient)
		err := examine(t, client, l, func(b Bucket) error {
			r, err := l.Allow(t.Context(), 1, b)
			if err == nil && !r.Allowed {
				err = fmt.Errorf("request of a caller: got %+v, want allowed", r)
			}
			return err
		}, func() bool { return l.queue.Len() == callers+2 })
		check.OK(t, err)
	})
	t.Run("twin without shared calls", func(t *testing.T) {
		_, client := startEmbedded(t)
		loaded(t, client)
		l := New(client, patient)
		err := examine(t, client, l, func(b Bucket) error {
			return l.take(t.Context(), []ask{{cost: 1, buckets: []Bucket{b}}})[0].err
		}, func() bool { return false })
		if err == nil {
			t.Error("twin with 602 calls: it passes, so the check proves nothing")
		}
	})
}

// alone returns a limiter without a server, for a bubble of testing/synctest.
func alone(t *testing.T, timeout, slow time.Duration) (*delay, func(n int) error) {
	client := redis.NewClient(&redis.Options{Addr: ":1"})
	t.Cleanup(func() { _ = client.Close() })
	g := newDelay(client)
	g.alone, g.slow = true, slow
	l := New(client, Config{Timeout: timeout})
	return g, func(n int) error {
		return check.Err(l.Allow(t.Context(), 1, forBuyer(fmt.Sprint(n), parse(t, "1/h:5"))))
	}
}

// If Redis hangs, all callers receive an error after one timeout, regardless of the
// number of batches. After that, one caller at a time probes Redis, and all other callers
// receive an error without waiting.
func TestOneTimeoutWhileRedisHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout, callers = time.Second, 10 * maxBatch
		g, ask := alone(t, timeout, 0)
		begin := time.Now()
		var wg sync.WaitGroup
		for n := range callers {
			wg.Go(func() { check.Is(t, ask(n), ErrUnavailable) })
		}
		wg.Wait()
		// The failure of the first calls ends the other batches as well.
		calls, _, _ := g.seen()
		if took := time.Since(begin); calls != maxInFlight || took != timeout {
			t.Errorf("hanging Redis: got %d calls in %v, want %d in %v", calls, took, maxInFlight, timeout)
		}
		var waited atomic.Int64
		for n := range 200 { // a probe lasts for a timeout, and the next one starts 100 ms later
			wg.Go(func() {
				asked := time.Now()
				check.Is(t, ask(n), ErrUnavailable)
				if time.Since(asked) > 0 {
					waited.Add(1)
				}
			})
			time.Sleep(11 * time.Millisecond)
		}
		wg.Wait()
		if after, _, _ := g.seen(); after-calls != 2 || waited.Load() != 2 {
			t.Errorf("hanging Redis, afterwards: got %d waiting requests and %d calls, want 2 of each", waited.Load(), after-calls)
		}
		close(g.open)
		time.Sleep(probePause)
		check.OK(t, ask(0))
	})
}

// If Redis is slow, a caller that would have to wait for too many calls receives ErrLate.
func TestCallersBehindASlowRedisAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout, callers = time.Second, 10 * maxBatch
		g, ask := alone(t, timeout, timeout*7/10) // two calls take longer than the timeout
		var wg sync.WaitGroup
		var allowed, late atomic.Int64
		for n := range callers {
			wg.Go(func() {
				switch err := ask(n); {
				case err == nil:
					allowed.Add(1)
				case errors.Is(err, coalesce.ErrLate):
					late.Add(1)
				default:
					t.Errorf("request behind a slow Redis: got error %v, want none or ErrUnavailable", err)
				}
			})
		}
		wg.Wait()
		// The first calls, and then the calls with the callers that waited for them.
		if calls, _, _ := g.seen(); calls != 2*maxInFlight || allowed.Load() == 0 || late.Load() == 0 {
			t.Errorf("slow Redis: got %d calls, %d allowed, %d late, want %d calls and some of each", calls, allowed.Load(), late.Load(), 2*maxInFlight)
		}
	})
}
