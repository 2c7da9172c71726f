package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest"
)

// Forty callers of two nodes come at once, and leave at the rate: the nth not
// before n tokens have come in since they came. The twin doesn't wait.
func TestWaitSpacesDepartures(t *testing.T) {
	const callers = 40
	tooEarly := func(t *testing.T, client redis.UniversalClient, every time.Duration, wait func(*Limiter, Bucket) error) error {
		nodes := []*Limiter{New(client, Config{Timeout: 30 * time.Second}), New(client, Config{Timeout: 30 * time.Second})}
		b := Route(t.Name(), limit(t, fmt.Sprintf("1/%v:1", every)))
		var mu sync.Mutex
		var wg sync.WaitGroup
		var departures []time.Duration
		begin := time.Now()
		for n := range callers {
			wg.Go(func() {
				ok(t, wait(nodes[n%2], b))
				mu.Lock()
				defer mu.Unlock()
				departures = append(departures, time.Since(begin))
			})
		}
		wg.Wait()
		sort.Slice(departures, func(i, j int) bool { return departures[i] < departures[j] })
		for n, at := range departures {
			if due := time.Duration(n) * every; at < due-time.Millisecond { // the two clocks' drift
				return fmt.Errorf("departure %d after %v, and not before %v", n, at, due)
			}
		}
		return nil
	}
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		err := tooEarly(t, client, 5*time.Millisecond, func(l *Limiter, b Bucket) error {
			_, err := l.Wait(t.Context(), 1, time.Minute, b)
			return err
		})
		ok(t, err)
	})
	t.Run("a twin that goes at once", func(t *testing.T) {
		_, client := startEmbedded(t)
		// An hour each, so that no machine is slow enough to keep the pace.
		err := tooEarly(t, client, time.Hour, func(l *Limiter, b Bucket) error {
			b.queues = true
			return l.take(t.Context(), []ask{{cost: 1, buckets: []Bucket{b}, timeout: 100 * time.Hour}})[0].err
		})
		if err == nil {
			t.Error("nobody notices")
		}
	})
}

// Who would have to wait for too long hears so at once, takes no turn from
// those behind him, and is told when there is room.
func TestWaitIsBounded(t *testing.T) {
	server, client := startEmbedded(t)
	l := New(client, Config{Remember: -1})
	b := SKU("s1", limit(t, "100/s:1"))
	wait := func(cost int, longest time.Duration) (Result, error) {
		return l.Wait(t.Context(), cost, longest, b)
	}
	for n := range 3 {
		r, err := wait(1, 20*time.Millisecond)
		if want := time.Duration(n) * 10 * time.Millisecond; err != nil || r.Waited != want {
			t.Fatalf("caller %d: %+v, %v", n, r, err)
		}
	}
	refused := func(r Result, err error, retry time.Duration) {
		t.Helper()
		var limited *LimitedError
		if !errors.As(err, &limited) || r.Allowed || r.RetryAfter != retry || r.Remaining != 0 || r.Reset != 30*time.Millisecond {
			t.Errorf("%+v, %v", r, err)
		}
	}
	r, err := wait(1, 20*time.Millisecond)
	refused(r, err, 10*time.Millisecond)
	r, err = wait(1, 0)
	refused(r, err, 30*time.Millisecond)
	if r, err := wait(2, time.Minute); !r.Never || err == nil {
		t.Errorf("more than the burst: %+v, %v", r, err)
	}
	// What Allow counts is another thing, of the same name.
	if r := allow(t, l, 1, b); !r.Allowed {
		t.Errorf("%+v", r)
	}
	server.SetTime(epoch.Add(10 * time.Millisecond))
	if r, err := wait(1, 20*time.Millisecond); err != nil || r.Waited != 20*time.Millisecond {
		t.Errorf("when there is room: %+v, %v", r, err)
	}
	for _, longest := range []time.Duration{-1, 1 << 62} {
		is(t, errOf(l.Wait(t.Context(), 1, longest, Buyer("b1", limit(t, "1000000000/s:1")))), ErrBadRequest)
	}
}

// A context that won't last until the turn is refused before it takes one; one
// that is cancelled while waiting ends the wait, and the turn goes back.
func TestWaitEndsWithItsContext(t *testing.T) {
	_, client := startEmbedded(t)
	l := New(client, Config{Remember: -1})
	b := SKU("s1", limit(t, "1/h:1"))
	must(t, errOf(l.Wait(t.Context(), 1, time.Minute, b)))
	short, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	var limited *LimitedError
	if _, err := l.Wait(short, 1, 24*time.Hour, b); !errors.As(err, &limited) {
		t.Errorf("a context that is too short: %v", err)
	}
	queued := b
	queued.queues = true
	key := func() string { return client.Get(t.Context(), queued.key(DefaultPrefix)).Val() }
	first := key()
	ctx, giveUp := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := l.Wait(ctx, 1, 24*time.Hour, b)
		done <- err
	}()
	servertest.Eventually(t, "it has its turn", func() bool { return key() != first })
	giveUp()
	is(t, <-done, context.Canceled)
	r, err := l.Wait(t.Context(), 1, time.Minute, b)
	if err == nil || r.RetryAfter != time.Hour-time.Minute {
		t.Errorf("the next: %+v, %v", r, err)
	}
}

// While Redis is away the queue is this node's own, or there is none.
func TestWaitWhileRedisIsAway(t *testing.T) {
	server, client := startEmbedded(t)
	server.Close()
	l := New(client, Config{Clock: func() time.Time { return epoch }}) // stands still
	b := SKU("s1", limit(t, "100/s:1"))
	for policy, waits := range map[Policy][]time.Duration{
		Open:  {0, 0, 0},
		Local: {0, 10 * time.Millisecond, 20 * time.Millisecond},
	} {
		for n, want := range waits {
			r, err := l.With(Rules{WhenAway: policy}).Wait(t.Context(), 1, time.Minute, b)
			if err != nil || r.Waited != want {
				t.Errorf("%v, caller %d: %+v, %v", policy, n, r, err)
			}
		}
	}
	is(t, errOf(l.With(Rules{WhenAway: Closed}).Wait(t.Context(), 1, time.Minute, b)), ErrUnavailable)
}

// A turn that this node alone has counted is given up without a word to Redis, which
// is away.
func TestGivenUpWhileRedisIsAway(t *testing.T) {
	server, client := startEmbedded(t)
	server.Close()
	asked := pipelines{new(atomic.Int64)}
	client.AddHook(asked)
	ctx, giveUp := context.WithCancel(t.Context())
	l, b := New(client, Config{}).With(Rules{WhenAway: Local}), SKU("s1", limit(t, "1/h:1"))
	must(t, errOf(l.Wait(ctx, 1, 24*time.Hour, b)))
	l.config.OnDecision = func(Decision) { giveUp() }
	is(t, errOf(l.Wait(ctx, 1, 24*time.Hour, b)), context.Canceled)
	if n := asked.Load(); n > 0 {
		t.Errorf("%d words to Redis", n)
	}
}

// pipelines counts them: it is by those that turns are given up.
type pipelines struct{ *atomic.Int64 }

func (pipelines) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (p pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { p.Add(1); return next(ctx, cmds) }
}

// Turns that are given up go back, in whatever order that happens, unless somebody
// stands behind them.
func TestGivenUpTurnsGoBack(t *testing.T) {
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		const every = time.Hour
		l, b := New(client, Config{Timeout: 30 * time.Second}), Route(t.Name(), limit(t, "1/h:1"))
		// turn is how long somebody waits who gives up when told to.
		turn := func(ctx context.Context) (time.Duration, *sync.WaitGroup) {
			gone := &sync.WaitGroup{}
			queue := b
			queue.queues = true
			before, err := l.peek(t.Context(), ask{buckets: []Bucket{queue}})
			must(t, err)
			gone.Go(func() {
				if _, err := l.Wait(ctx, 1, 1000*every, b); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			var after Result
			servertest.Eventually(t, "in the queue", func() bool {
				after, err = l.peek(t.Context(), ask{buckets: []Bucket{queue}})
				return err == nil && after.Reset > before.Reset+every/2
			})
			return after.Reset - every, gone
		}
		if r, err := l.Wait(t.Context(), 1, 0, b); err != nil || r.Waited != 0 {
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
