package ratelimit

import (
	"context"
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

// loaded puts the script where the calls find it, so that none is sent twice.
func loaded(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	check.Must(t, takeScript.Load(t.Context(), client).Err())
}

// Six hundred callers at once cost five calls: two under way, and the rest in
// batches of 256. The check is shared with a twin that asks for each alone.
func TestCallersShareCalls(t *testing.T) {
	const callers = 600
	examine := func(t *testing.T, client redis.UniversalClient, l *Limiter, ask func(Bucket) error, waiting func() bool) error {
		g := newGate(client)
		var wg sync.WaitGroup
		errs := make(chan error, callers+2)
		start := func(from, to int) {
			for n := from; n < to; n++ {
				wg.Go(func() { errs <- ask(forBuyer(fmt.Sprint(n), parse(t, "1/h:1"))) })
			}
		}
		start(0, 1)
		check.Eventually(t, "the first call is under way", func() bool { return g.holds() >= 1 })
		start(1, 2)
		check.Eventually(t, "the second call is under way", func() bool { return g.holds() >= 2 })
		start(2, callers+2)
		check.Eventually(t, "all callers wait", func() bool { return waiting() || g.holds() == callers+2 })
		close(g.open)
		wg.Wait()
		close(errs)
		for err := range errs {
			check.OK(t, err)
		}
		calls, most, keys := g.seen()
		if calls != 5 || most > maxInFlight || keys > maxBatch {
			return fmt.Errorf("%d calls, at most %d at once, of up to %d keys", calls, most, keys)
		}
		return nil
	}
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		loaded(t, client)
		l := New(client, patient)
		err := examine(t, client, l, func(b Bucket) error {
			r, err := l.Allow(t.Context(), 1, b)
			if err == nil && !r.Allowed {
				err = fmt.Errorf("refused: %+v", r)
			}
			return err
		}, func() bool { return l.queue.Len() == callers+2 })
		check.OK(t, err)
	})
	t.Run("a twin that asks for each alone", func(t *testing.T) {
		_, client := startEmbedded(t)
		loaded(t, client)
		l := New(client, patient)
		err := examine(t, client, l, func(b Bucket) error {
			return l.take(t.Context(), []ask{{cost: 1, buckets: []Bucket{b}}})[0].err
		}, func() bool { return false })
		if err == nil {
			t.Error("602 calls pass for five")
		}
	})
}

// One who gives up gets away at once. Waiting in the queue, he costs nothing;
// in a call under way, his token is spent. Nobody else notices either. Who makes
// the call himself hears its answer, unless his deadline is near.
func TestCallersThatGiveUp(t *testing.T) {
	_, client := startEmbedded(t)
	loaded(t, client)
	g := newGate(client)
	l := New(client, patient)
	five := parse(t, "1/h:5")
	start := func(ctx context.Context, b Bucket) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := l.Allow(ctx, 1, b)
			done <- err
		}()
		return done
	}
	ctx, giveUp := context.WithTimeout(t.Context(), 50*time.Minute) // less than the timeout of a call
	underWay := start(ctx, forBuyer("under-way", five))
	check.Eventually(t, "a call is under way", func() bool { return g.holds() == 1 })
	patient, cancel := context.WithCancel(t.Context())
	second := start(patient, forBuyer("second", five))
	check.Eventually(t, "two calls are under way", func() bool { return g.holds() == 2 })
	waiting := start(ctx, forBuyer("waiting", five))
	check.Eventually(t, "one waits", func() bool { return l.queue.Len() == 3 })
	neighbour := start(t.Context(), forBuyer("neighbour", five))
	check.Eventually(t, "two wait", func() bool { return l.queue.Len() == 4 })

	giveUp()
	cancel()
	for _, done := range []chan error{underWay, waiting} {
		check.Is(t, <-done, context.Canceled)
	}
	close(g.open)
	for _, done := range []chan error{second, neighbour} {
		if err := <-done; err != nil {
			t.Errorf("a neighbour: %v", err)
		}
	}
	for id, want := range map[string]int64{"under-way": 4, "second": 4, "waiting": 5, "neighbour": 4} {
		b := forBuyer(id, five)
		check.Eventually(t, id+"'s tokens are counted", func() bool { return left(t, client, b) == want })
	}
}

// alone returns a limiter without a server, for a bubble of testing/synctest.
func alone(t *testing.T, timeout, slow time.Duration) (*gate, func(n int) error) {
	client := redis.NewClient(&redis.Options{Addr: ":1"})
	t.Cleanup(func() { _ = client.Close() })
	g := newGate(client)
	g.alone, g.slow = true, slow
	l := New(client, Config{Timeout: timeout})
	return g, func(n int) error {
		return check.Err(l.Allow(t.Context(), 1, forBuyer(fmt.Sprint(n), parse(t, "1/h:5"))))
	}
}

// If Redis hangs, all callers receive an error after one timeout, regardless of the number
// of batches. After that, one caller at a time probes Redis, and all other callers receive
// an error without waiting.
func TestNobodyWaitsForARedisThatHangs(t *testing.T) {
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
			t.Errorf("%d calls to a Redis that hangs, in %v", calls, took)
		}
		var waited atomic.Int64
		for n := range 200 { // a probe lasts for a timeout, and the next probe starts 100 ms later
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
			t.Errorf("%d requests waited, and %d calls were made", waited.Load(), after-calls)
		}
		close(g.open)
		time.Sleep(probePause)
		check.OK(t, ask(0))
	})
}

// When Redis is slow, whoever would have to wait for too many calls before his
// own hears so.
func TestNobodyWaitsLongForASlowRedis(t *testing.T) {
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
					t.Error(err)
				}
			})
		}
		wg.Wait()
		// The first calls, and then the calls with the callers that waited for them.
		if calls, _, _ := g.seen(); calls != 2*maxInFlight || allowed.Load() == 0 || late.Load() == 0 {
			t.Errorf("%d calls, %d allowed, %d late", calls, allowed.Load(), late.Load())
		}
	})
}
