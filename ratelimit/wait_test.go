package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
)

// Forty callers of two nodes come at once, and leave at the rate: the nth not
// before n tokens have come in since they came. The twin doesn't wait.
func TestWaitSpacesDepartures(t *testing.T) {
	const callers = 40
	tooEarly := func(t *testing.T, client redis.UniversalClient, every time.Duration, wait func(*Limiter, Bucket) error) error {
		nodes := []*Limiter{New(client, patient), New(client, patient)}
		b := forRoute(t.Name(), parse(t, fmt.Sprintf("1/%v:1", every)))
		var mu sync.Mutex
		var wg sync.WaitGroup
		var departures []time.Duration
		begin := time.Now()
		for n := range callers {
			wg.Go(func() {
				check.OK(t, wait(nodes[n%2], b))
				mu.Lock()
				defer mu.Unlock()
				departures = append(departures, time.Since(begin))
			})
		}
		wg.Wait()
		sort.Slice(departures, func(i, j int) bool { return departures[i] < departures[j] })
		for n, at := range departures {
			if due := time.Duration(n) * every; at < due-time.Millisecond { // the clocks of the test and of the server drift
				return fmt.Errorf("departure %d after %v, and not before %v", n, at, due)
			}
		}
		return nil
	}
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		err := tooEarly(t, client, 5*time.Millisecond, func(l *Limiter, b Bucket) error {
			r, err := l.Wait(t.Context(), 1, time.Minute, b)
			if err == nil && !r.Allowed {
				err = fmt.Errorf("refused: %+v", r)
			}
			return err
		})
		check.OK(t, err)
	})
	t.Run("a twin that goes at once", func(t *testing.T) {
		_, client := startEmbedded(t)
		// An hour each, so that no machine is slow enough to keep the pace.
		err := tooEarly(t, client, time.Hour, func(l *Limiter, b Bucket) error {
			b.queues = true
			return l.take(t.Context(), []ask{{cost: 1, buckets: []Bucket{b}, timeout: 100 * time.Hour}})[0].err
		})
		if err == nil {
			t.Error("no error")
		}
	})
}

// A real server refills tokens by its own clock, never faster than the rate. A caller that
// retries after RetryAfter receives a token.
func TestTokensComeInOnARealServer(t *testing.T) {
	const rate, burst = 200, 3
	client := startReal(t)
	for _, perSlot := range []bool{false, true} {
		l := New(client, Config{Timeout: time.Hour, Remember: -1})
		l.perSlot = perSlot
		b := forBuyer(fmt.Sprint(perSlot), parse(t, fmt.Sprintf("%d/s:%d", rate, burst)))
		begin, refused := time.Now(), 0
		for n := 1; n <= 30 || refused == 0 && time.Now().Before(check.Deadline(t)); n++ { // a busy machine may be too slow to be refused
			r := allow(t, l, 1, b)
			if !r.Allowed {
				refused++
				time.Sleep(r.RetryAfter + time.Millisecond) // the clocks of the test and of the server drift
				r = allow(t, l, 1, b)
			}
			if bound := burst + rate*time.Since(begin).Seconds() + 0.5; !r.Allowed || float64(n) > bound {
				t.Errorf("token %d: %+v, and %.1f are the bound", n, r, bound)
			}
		}
		if refused == 0 {
			t.Error("no request was refused")
		}
	}
}

// Who would have to wait for too long hears so at once, takes no turn from
// those behind him, and is told when there is room.
func TestWaitIsBounded(t *testing.T) {
	server, client := startEmbedded(t)
	l := New(client, Config{Timeout: time.Hour, Remember: -1})
	b := forSKU("s1", parse(t, "100/s:1"))
	wait := func(cost int, longest time.Duration) (Result, error) {
		return l.Wait(t.Context(), cost, longest, b)
	}
	for n := range 3 {
		r, err := wait(1, 20*time.Millisecond)
		if want := time.Duration(n) * 10 * time.Millisecond; err != nil || !r.Allowed || r.Waited != want {
			t.Fatalf("caller %d: %+v, %v", n, r, err)
		}
	}
	refused := func(r Result, err error, retry time.Duration) {
		t.Helper()
		if err != nil || r.Allowed || r.RetryAfter != retry || r.Remaining != 0 || r.Reset != 30*time.Millisecond {
			t.Errorf("%+v, %v", r, err)
		}
	}
	r, err := wait(1, 20*time.Millisecond)
	refused(r, err, 10*time.Millisecond)
	r, err = wait(1, 0)
	refused(r, err, 30*time.Millisecond)
	if r, err := wait(2, time.Minute); !r.Never || r.Allowed || err != nil {
		t.Errorf("more than the burst: %+v, %v", r, err)
	}
	// What Allow counts is another thing, of the same name.
	if r := allow(t, l, 1, b); !r.Allowed {
		t.Errorf("%+v", r)
	}
	server.SetTime(epoch.Add(10 * time.Millisecond))
	if r, err := wait(1, 20*time.Millisecond); err != nil || !r.Allowed || r.Waited != 20*time.Millisecond {
		t.Errorf("when there is room: %+v, %v", r, err)
	}
	for _, longest := range []time.Duration{-1, 1 << 62} {
		check.Is(t, check.Err(l.Wait(t.Context(), 1, longest, forBuyer("b1", parse(t, "1000000000/s:1")))), ErrBadRequest)
	}
}

// A context that won't last until the turn is refused before it takes one; one
// that is cancelled while waiting ends the wait, and the turn goes back.
func TestWaitEndsWithItsContext(t *testing.T) {
	_, client := startEmbedded(t)
	l := New(client, Config{Timeout: time.Hour, Remember: -1})
	b := forSKU("s1", parse(t, "1/h:1"))
	if r, err := l.Wait(t.Context(), 1, time.Minute, b); err != nil || !r.Allowed {
		t.Fatalf("the first: %+v, %v", r, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	if r, err := l.Wait(short, 1, 24*time.Hour, b); err != nil || r.Allowed || r.RetryAfter <= 0 {
		t.Errorf("a context that is too short: %+v, %v", r, err)
	}
	queued := b
	queued.queues = true
	key := func() string { return client.Get(t.Context(), queued.key(defaultPrefix)).Val() }
	first := key()
	ctx, giveUp := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := l.Wait(ctx, 1, 24*time.Hour, b)
		done <- err
	}()
	check.Eventually(t, "it has its turn", func() bool { return key() != first })
	giveUp()
	check.Is(t, <-done, context.Canceled)
	r, err := l.Wait(t.Context(), 1, time.Minute, b)
	if err != nil || r.Allowed || r.RetryAfter != time.Hour-time.Minute {
		t.Errorf("the next: %+v, %v", r, err)
	}
}

// While Redis is away there is no queue.
func TestWaitWhileRedisIsAway(t *testing.T) {
	server, client := startEmbedded(t)
	server.Close()
	r, err := New(client, patient).Wait(t.Context(), 1, time.Minute, forSKU("s1", parse(t, "100/s:1")))
	check.Is(t, err, ErrUnavailable)
	if r.Allowed {
		t.Errorf("%+v", r)
	}
}

// Turns that are given up go back, in whatever order that happens, unless somebody
// stands behind them.
func TestGivenUpTurnsGoBack(t *testing.T) {
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		const every = time.Hour
		l, b := New(client, patient), forRoute(t.Name(), parse(t, "1/h:1"))
		// turn is how long somebody waits who gives up when told to.
		turn := func(ctx context.Context) (time.Duration, *sync.WaitGroup) {
			gone := &sync.WaitGroup{}
			queue := b
			queue.queues = true
			before, err := l.peek(t.Context(), ask{buckets: []Bucket{queue}})
			check.Must(t, err)
			gone.Go(func() {
				if _, err := l.Wait(ctx, 1, 1000*every, b); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			var after Result
			check.Eventually(t, "in the queue", func() bool {
				after, err = l.peek(t.Context(), ask{buckets: []Bucket{queue}})
				return err == nil && after.Reset > before.Reset+every/2
			})
			return after.Reset - every, gone
		}
		if r, err := l.Wait(t.Context(), 1, 0, b); err != nil || !r.Allowed || r.Waited != 0 {
			t.Fatalf("the first: %+v, %v", r, err)
		}
		const many = 10
		var stops []context.CancelFunc
		var gone []*sync.WaitGroup
		for range many {
			ctx, stop := context.WithCancel(t.Context())
			_, g := turn(ctx)
			stops, gone = append(stops, stop), append(gone, g)
		}
		leave := func(n int) { stops[n](); gone[n].Wait() }
		for n := range many - 2 { // the first, and on: somebody stands behind each
			leave(n)
		}
		ctx, stop := context.WithCancel(t.Context())
		waits, last := turn(ctx)
		if waits <= (many-1)*every {
			t.Errorf("behind %d others: %v", many, waits)
		}
		stop()
		last.Wait()
		leave(many - 1)
		leave(many - 2) // and with it all that have gone before
		ctx, stop = context.WithCancel(t.Context())
		waits, last = turn(ctx)
		if waits > every {
			t.Errorf("in an empty queue: %v", waits)
		}
		stop()
		last.Wait()
	})
}
