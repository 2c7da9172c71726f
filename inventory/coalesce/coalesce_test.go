package coalesce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"flashsale/loadtest/servers/servertest/check"
)

// A question is the request of caller id. asked is a time on a clock that each caller and
// each call advances.
type question struct{ id, asked int64 }

// Thousands of callers use several keys, and some of them give up. Each waiting caller
// receives its own answer, once, from a call that began later than its question. A caller
// that gave up before is in no call, and no bound is exceeded.
func TestCallersRace(t *testing.T) {
	t.Run("calls by goroutines", func(t *testing.T) { race(t, 6, false) })
	t.Run("calls by callers", func(t *testing.T) { race(t, 0, true) })
}

// race allows the given number of concurrent calls with any key; 0 means no bound.
func race(t *testing.T, calls int, self bool) {
	const callers, keys, maxBatch, inFlight, bound = 8000, 5, 50, 2, 500
	var clock, underWay, refused, gaveUp, answered atomic.Int64
	var perKey [keys]atomic.Int64
	var seen [callers]atomic.Bool
	largest := 0
	var mu sync.Mutex
	full, once := make(chan struct{}), sync.Once{} // calls wait until one caller has received ErrFull
	g := New(Config[question, string]{
		MaxBatch: maxBatch, MaxInFlight: inFlight, MaxCalls: calls, MaxCallers: bound, CallerRuns: self,
		Call: func(_ context.Context, key string, batch []*Caller[question, string]) {
			<-full
			began := clock.Add(1)
			k := key[0] - 'a'
			if n := perKey[k].Add(1); n > inFlight {
				t.Errorf("concurrent calls: got %d with the key %s, want at most %d", n, key, inFlight)
			}
			if n := underWay.Add(1); calls > 0 && n > int64(calls) {
				t.Errorf("concurrent calls of all keys: got %d, want at most %d", n, calls)
			}
			if len(batch) > maxBatch || len(batch) == 0 {
				t.Errorf("callers of one call: got %d, want 1 to %d", len(batch), maxBatch)
			}
			mu.Lock()
			largest = max(largest, len(batch))
			mu.Unlock()
			lost := rand.IntN(10) == 0
			for _, c := range batch {
				q := c.Q
				if q.asked > began {
					t.Errorf("call: it began at %d, before its caller asked at %d", began, q.asked)
				}
				if seen[q.id].Swap(true) {
					t.Errorf("caller %d: got two calls, want one", q.id)
				}
				if c.Answer = fmt.Sprint(key, q.id); lost {
					c.Err = errLost
				}
			}
			perKey[k].Add(-1)
			underWay.Add(-1)
		},
	})
	var all sync.WaitGroup
	for id := range int64(callers) {
		all.Go(func() {
			key := string(rune('a' + id%keys))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if id%3 == 0 {
				go cancel()
			}
			a, err := g.Do(ctx, key, question{id, clock.Add(1)})
			switch {
			case errors.Is(err, ErrFull):
				refused.Add(1)
				once.Do(func() { close(full) })
				if seen[id].Load() {
					t.Errorf("caller %d: got ErrFull and a call, want one of both", id)
				}
			case errors.Is(err, context.Canceled):
				gaveUp.Add(1)
			case errors.Is(err, errLost):
			case err != nil:
				t.Errorf("caller %d: got error %v, want none", id, err)
			case a != fmt.Sprint(key, id):
				t.Errorf("caller %d: got the answer %q, want its own", id, a)
			default:
				answered.Add(1)
			}
		})
	}
	all.Wait()
	check.OK(t, g.Wait(t.Context()))
	if len(g.keys) != 0 || g.Len() != 0 {
		t.Errorf("group after all calls: got %d keys and %d callers, want none left", len(g.keys), g.Len())
	}
	if largest < 2 || gaveUp.Load() == 0 || refused.Load() == 0 || answered.Load() == 0 {
		t.Errorf("callers of the race: got batches up to %d, %d callers that gave up, %d refused and %d answered, want batches of 2 or more and some of each",
			largest, gaveUp.Load(), refused.Load(), answered.Load())
	}
}

var errLost = errors.New("the call's answer was lost")

// stepped returns a group whose calls report their callers and then wait for the test.
func stepped(o Config[int, int]) (g *Group[int, int], calls chan string, through chan struct{}) {
	calls, through = make(chan string), make(chan struct{})
	o.Call = func(_ context.Context, _ string, batch []*Caller[int, int]) {
		var qs []int
		for _, c := range batch {
			qs = append(qs, c.Q)
		}
		_ = append(batch, nil) // must not overwrite a waiting caller
		calls <- fmt.Sprint(qs)
		<-through
	}
	return New(o), calls, through
}

// asking returns a function that adds callers one by one. Their errors arrive in results.
func asking(t *testing.T, g *Group[int, int], results chan error) func(context.Context, ...int) {
	return func(ctx context.Context, qs ...int) {
		t.Helper()
		for _, q := range qs {
			before := g.Len()
			go func() { _, err := g.Do(ctx, "k", q); results <- err }()
			synctest.Wait()
			if g.Len() != before+1 {
				t.Errorf("callers of the group: got %d, want %d", g.Len(), before+1)
			}
		}
	}
}

// The next call takes all waiting callers, except those that have given up. A caller that
// gives up counts for MaxCallers until then.
func TestNextCallTakesWaitingCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, calls, through := stepped(Config[int, int]{MaxBatch: 10, MaxCallers: 4})
		ctx, giveUp := context.WithCancel(t.Context())
		results := make(chan error, 4)
		ask := asking(t, g, results)
		ask(t.Context(), 1)
		if got := <-calls; got != "[1]" {
			t.Errorf("first call: got the callers %s, want [1]", got)
		}
		ask(t.Context(), 2)
		ask(ctx, 3)
		ask(t.Context(), 4)
		check.Is(t, check.Err(g.Do(t.Context(), "other", 5)), ErrFull)
		giveUp()
		check.Is(t, <-results, context.Canceled)
		check.Is(t, check.Err(g.Do(ctx, "k", 6)), context.Canceled)
		through <- struct{}{}
		if got := <-calls; got != "[2 4]" {
			t.Errorf("second call: got the callers %s, want the waiting callers [2 4]", got)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		check.Is(t, g.Wait(soon), context.DeadlineExceeded)
		waited := make(chan error)
		go func() { waited <- g.Wait(t.Context()) }()
		through <- struct{}{}
		for range 3 {
			check.OK(t, <-results)
		}
		check.OK(t, <-waited)
	})
}

// The sizes of the callers of a batch add up to at most MaxBatch. A larger caller is sent
// alone.
func TestBatchBySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, calls, through := stepped(Config[int, int]{MaxBatch: 4, Size: func(q int) int { return q }})
		results := make(chan error, 6)
		ask := asking(t, g, results)
		ask(t.Context(), 1)
		if got := <-calls; got != "[1]" { // the other callers arrive during this call
			t.Errorf("first call: got the callers %s, want [1]", got)
		}
		ask(t.Context(), 2, 2, 1, 9, 3)
		for _, want := range []string{"[2 2]", "[1]", "[9]", "[3]"} {
			through <- struct{}{}
			if got := <-calls; got != want {
				t.Fatalf("next call: got the callers %s, want %s", got, want)
			}
		}
		through <- struct{}{}
		for range 6 {
			check.OK(t, <-results)
		}
	})
}

// If a call hangs, the next callers wait for Patience only. Wait still waits for the
// call.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, calls, through := stepped(Config[int, int]{MaxBatch: 10, Patience: 10 * time.Millisecond, MaxCalls: 1})
		results := make(chan error, 3)
		ask := asking(t, g, results)
		for i := range 3 {
			ask(t.Context(), i)
			if got := <-calls; got != fmt.Sprintf("[%d]", i) {
				t.Errorf("call %d: got the callers %s, want one caller", i, got)
			}
		}
		time.Sleep(g.Patience) // on the fake clock
		synctest.Wait()
		if len(g.keys) > 0 {
			t.Errorf("senders of the group: got %v, want none", g.keys)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		check.Is(t, g.Wait(soon), context.DeadlineExceeded)
		close(through)
		for range 3 {
			check.OK(t, <-results)
		}
		if err := g.Wait(t.Context()); err != nil || g.Len() != 0 {
			t.Errorf("Wait: got error %v with %d callers left, want none", err, g.Len())
		}
	})
}

// Tasks can start after a Wait has returned.
func TestTasksAfterWait(t *testing.T) {
	var tasks Tasks
	for range 2 {
		end := make(chan struct{})
		tasks.Go(func() { <-end })
		time.AfterFunc(time.Millisecond, func() { close(end) })
		check.OK(t, tasks.Wait(t.Context()))
	}
}

// Timeout ends a call that hangs, and its callers receive an error.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config[int, int]{Timeout: 10 * time.Millisecond, Call: func(ctx context.Context, _ string, batch []*Caller[int, int]) {
			<-ctx.Done()
			batch[0].Err = ctx.Err()
		}})
		check.Is(t, check.Err(g.Do(t.Context(), "", 1)), context.DeadlineExceeded)
	})
}

// A caller that waits for longer than MaxWait is not sent. Later callers are.
func TestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, calls, through := stepped(Config[int, int]{MaxBatch: 10, MaxWait: 20 * time.Millisecond})
		results, soon := make(chan error, 2), make(chan error, 1)
		ask := asking(t, g, results)
		ask(t.Context(), 1)
		<-calls
		ask(t.Context(), 2)
		time.Sleep(g.MaxWait + 1) // on the fake clock
		go func() { _, err := g.Do(t.Context(), "k", 3); soon <- err }()
		synctest.Wait()
		through <- struct{}{}
		if got := <-calls; got != "[3]" {
			t.Errorf("second call: got the callers %s, want the waiting caller [3]", got)
		}
		through <- struct{}{}
		if one, two := <-results, <-results; errors.Is(one, ErrLate) == errors.Is(two, ErrLate) {
			t.Errorf("first two callers: got errors %v and %v, want one ErrLate", one, two)
		}
		if err := <-soon; err != nil || g.Len() != 0 {
			t.Errorf("last caller: got error %v with %d callers left, want none", err, g.Len())
		}
	})
}
