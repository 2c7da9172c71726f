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

// Forty callers at two nodes arrive at once and leave at the rate: caller n does not
// leave before n tokens have been refilled. The broken twin does not wait.
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
			if due := time.Duration(n) * every; at < due-time.Millisecond { // allows for drift between the clocks of test and server
				return fmt.Errorf("departure %d: got it after %v, want at least %v", n, at, due)
			}
		}
		return nil
	}
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		err := tooEarly(t, client, 5*time.Millisecond, func(l *Limiter, b Bucket) error {
			r, err := l.Wait(t.Context(), 1, time.Minute, b)
			if err == nil && !r.Allowed {
				err = fmt.Errorf("request in the queue: got %+v, want allowed", r)
			}
			return err
		})
		check.OK(t, err)
	})
	t.Run("twin that does not wait", func(t *testing.T) {
		_, client := startEmbedded(t)
		// one token per hour: even on a slow machine, the departures of the twin are too early
		err := tooEarly(t, client, time.Hour, func(l *Limiter, b Bucket) error {
			b.queues = true
			return l.take(t.Context(), []ask{{cost: 1, buckets: []Bucket{b}, timeout: 100 * time.Hour}})[0].err
		})
		if err == nil {
			t.Error("twin without spaced departures: it passes, so the check proves nothing")
		}
	})
}

// A real server refills tokens by its own clock, never faster than the rate. A caller
// that retries after RetryAfter receives a token.
func TestRealServerRefillsAtTheRate(t *testing.T) {
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
				time.Sleep(r.RetryAfter + time.Millisecond) // allows for drift between the clocks of test and server
				r = allow(t, l, 1, b)
			}
			if bound := burst + rate*time.Since(begin).Seconds() + 0.5; !r.Allowed || float64(n) > bound {
				t.Errorf("token %d: got %+v, want allowed and at most %.1f tokens", n, r, bound)
			}
		}
		if refused == 0 {
			t.Error("requests at the real server: got no refusal, want at least one")
		}
	}
}

// A caller that would wait for too long is refused at once and takes no turn. RetryAfter
// is the time until the queue has room.
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
			t.Fatalf("caller %d: got %+v, error %v, want a wait of %v", n, r, err, want)
		}
	}
	refused := func(r Result, err error, retry time.Duration) {
		t.Helper()
		if err != nil || r.Allowed || r.RetryAfter != retry || r.Remaining != 0 || r.Reset != 30*time.Millisecond {
			t.Errorf("request of a full queue: got %+v, error %v, want refused with RetryAfter %v", r, err, retry)
		}
	}
	r, err := wait(1, 20*time.Millisecond)
	refused(r, err, 10*time.Millisecond)
	r, err = wait(1, 0)
	refused(r, err, 30*time.Millisecond)
	if r, err := wait(2, time.Minute); !r.Never || r.Allowed || err != nil {
		t.Errorf("cost above the burst: got %+v, error %v, want Never", r, err)
	}
	// Allow counts separate tokens for the same Bucket.
	if r := allow(t, l, 1, b); !r.Allowed {
		t.Errorf("Allow on the same bucket: got %+v, want allowed", r)
	}
	server.SetTime(epoch.Add(10 * time.Millisecond))
	if r, err := wait(1, 20*time.Millisecond); err != nil || !r.Allowed || r.Waited != 20*time.Millisecond {
		t.Errorf("when the queue has room: got %+v, error %v, want allowed", r, err)
	}
	for _, longest := range []time.Duration{-1, 1 << 62} {
		check.Is(t, check.Err(l.Wait(t.Context(), 1, longest, forBuyer("b1", parse(t, "1000000000/s:1")))), ErrBadRequest)
	}
}

// If the context ends before the turn, the request is refused and takes no turn. If the
// context is cancelled while the caller waits, the wait ends and the turn is given up.
func TestWaitEndsWithTheContext(t *testing.T) {
	_, client := startEmbedded(t)
	l := New(client, Config{Timeout: time.Hour, Remember: -1})
	b := forSKU("s1", parse(t, "1/h:1"))
	if r, err := l.Wait(t.Context(), 1, time.Minute, b); err != nil || !r.Allowed {
		t.Fatalf("first caller: got %+v, error %v, want allowed at once", r, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	if r, err := l.Wait(short, 1, 24*time.Hour, b); err != nil || r.Allowed || r.RetryAfter <= 0 {
		t.Errorf("deadline before the turn: got %+v, error %v, want refused", r, err)
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
	check.Eventually(t, "the caller has a turn", func() bool { return key() != first })
	giveUp()
	check.Is(t, <-done, context.Canceled)
	r, err := l.Wait(t.Context(), 1, time.Minute, b)
	if err != nil || r.Allowed || r.RetryAfter != time.Hour-time.Minute {
		t.Errorf("next caller: got %+v, error %v, want refused", r, err)
	}
}

// Without Redis there is no queue.
func TestWaitWhileRedisIsDown(t *testing.T) {
	server, client := startEmbedded(t)
	server.Close()
	r, err := New(client, patient).Wait(t.Context(), 1, time.Minute, forSKU("s1", parse(t, "100/s:1")))
	check.Is(t, err, ErrUnavailable)
	if r.Allowed {
		t.Errorf("request while Redis is down: got %+v, want not allowed", r)
	}
}

// Turns that are given up return to the queue, in any order, unless later turns are
// taken.
func TestGivenUpTurnsReturn(t *testing.T) {
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		const every = time.Hour
		l, b := New(client, patient), forRoute(t.Name(), parse(t, "1/h:1"))
		// turn makes a caller wait in the background until ctx ends, and returns its
		// waiting time.
		turn := func(ctx context.Context) (time.Duration, *sync.WaitGroup) {
			gone := &sync.WaitGroup{}
			queue := b
			queue.queues = true
			before, err := l.peek(t.Context(), ask{buckets: []Bucket{queue}})
			check.Must(t, err)
			gone.Go(func() {
				if _, err := l.Wait(ctx, 1, 1000*every, b); !errors.Is(err, context.Canceled) {
					t.Errorf("wait in the queue: got error %v, want context.Canceled", err)
				}
			})
			var after Result
			check.Eventually(t, "the caller is in the queue", func() bool {
				after, err = l.peek(t.Context(), ask{buckets: []Bucket{queue}})
				return err == nil && after.Reset > before.Reset+every/2
			})
			return after.Reset - every, gone
		}
		if r, err := l.Wait(t.Context(), 1, 0, b); err != nil || !r.Allowed || r.Waited != 0 {
			t.Fatalf("first caller: got %+v, error %v, want allowed at once", r, err)
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
		for n := range many - 2 { // the first and the following turns have later ones behind them
			leave(n)
		}
		ctx, stop := context.WithCancel(t.Context())
		waits, last := turn(ctx)
		if waits <= (many-1)*every {
			t.Errorf("wait behind %d callers: got %v, want more", many, waits)
		}
		stop()
		last.Wait()
		leave(many - 1)
		leave(many - 2) // with it return all turns that were given up before
		ctx, stop = context.WithCancel(t.Context())
		waits, last = turn(ctx)
		if waits > every {
			t.Errorf("wait in an empty queue: got %v, want at most %v", waits, every)
		}
		stop()
		last.Wait()
	})
}
