package coalesce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"flashsale/loadtest/servers/servertest/check"
)

// A question says who asks, and at which moment of a clock that each caller and
// each call moves on.
type question struct{ id, asked int64 }

// Thousands of callers on several keys, some of whom give up at some moment. Each
// one who waits gets its own answer, once, from a call that began after it had
// asked; none who had gone is part of a call; and no bound is passed.
func TestCallersRace(t *testing.T) {
	t.Run("calls by goroutines", func(t *testing.T) { race(t, 6, false) })
	t.Run("calls by callers", func(t *testing.T) { race(t, 0, true) })
}

// race has calls of any key under way at once, at most; 0 for no bound.
func race(t *testing.T, calls int, self bool) {
	const callers, keys, most, inFlight, bound = 8000, 5, 50, 2, 500
	var clock, underWay, refused, gaveUp, answered atomic.Int64
	var perKey [keys]atomic.Int64
	var seen [callers]atomic.Bool
	largest := 0
	var mu sync.Mutex
	full, once := make(chan struct{}), sync.Once{} // calls wait until one caller was refused
	g := New(Config[question, string]{
		Batch: most, InFlight: inFlight, Calls: calls, Callers: bound, Self: self,
		Call: func(_ context.Context, key string, batch []*Caller[question, string]) {
			<-full
			began := clock.Add(1)
			k := key[0] - 'a'
			if n := perKey[k].Add(1); n > inFlight {
				t.Errorf("%d calls with %s at once", n, key)
			}
			if n := underWay.Add(1); calls > 0 && n > int64(calls) {
				t.Errorf("%d calls at once", n)
			}
			if len(batch) > most || len(batch) == 0 {
				t.Errorf("a call for %d", len(batch))
			}
			mu.Lock()
			largest = max(largest, len(batch))
			mu.Unlock()
			lost := rand.IntN(10) == 0
			for _, c := range batch {
				q := c.Q
				if q.asked > began {
					t.Errorf("asked at %d, and the call began at %d", q.asked, began)
				}
				if seen[q.id].Swap(true) {
					t.Errorf("%d is part of two calls", q.id)
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
					t.Errorf("%d was refused, and is part of a call", id)
				}
			case errors.Is(err, context.Canceled):
				gaveUp.Add(1)
			case errors.Is(err, errLost):
			case err != nil:
				t.Errorf("%d: %v", id, err)
			case a != fmt.Sprint(key, id):
				t.Errorf("%d hears %q", id, a)
			default:
				answered.Add(1)
			}
		})
	}
	all.Wait()
	check.OK(t, g.Wait(t.Context()))
	if len(g.keys) != 0 || g.Len() != 0 {
		t.Errorf("left: %d keys, %d callers", len(g.keys), g.Len())
	}
	if largest < 2 || gaveUp.Load() == 0 || refused.Load() == 0 || answered.Load() == 0 {
		t.Errorf("batches up to %d, %d gave up, %d were refused, %d answered: that was no race", largest, gaveUp.Load(), refused.Load(), answered.Load())
	}
}

var errLost = errors.New("the call's answer was lost")

// stepped is a group whose calls wait to be let through.
func stepped(o Config[int, int]) (g *Group[int, int], calls chan string, through chan struct{}) {
	calls, through = make(chan string), make(chan struct{})
	o.Call = func(_ context.Context, _ string, batch []*Caller[int, int]) {
		var qs []int
		for _, c := range batch {
			qs = append(qs, c.Q)
		}
		_ = append(batch, nil) // harms nobody who waits
		calls <- fmt.Sprint(qs)
		<-through
	}
	return New(o), calls, through
}

// asking has callers come one by one, and returns what each hears.
func asking(t *testing.T, g *Group[int, int], heard chan error) func(context.Context, ...int) {
	return func(ctx context.Context, qs ...int) {
		t.Helper()
		for _, q := range qs {
			before := g.Len()
			go func() { _, err := g.Do(ctx, "k", q); heard <- err }()
			synctest.Wait()
			if g.Len() != before+1 {
				t.Errorf("%d callers, want %d", g.Len(), before+1)
			}
		}
	}
}

// Whoever comes while a call is in flight goes with the next one; whoever has
// given up by then does not, and makes no room before.
func TestNextCallTakesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, calls, through := stepped(Config[int, int]{Batch: 10, Callers: 4})
		ctx, giveUp := context.WithCancel(t.Context())
		heard := make(chan error, 4)
		ask := asking(t, g, heard)
		ask(t.Context(), 1)
		if got := <-calls; got != "[1]" {
			t.Errorf("the first call is for %s", got)
		}
		ask(t.Context(), 2)
		ask(ctx, 3)
		ask(t.Context(), 4)
		check.Is(t, check.Err(g.Do(t.Context(), "other", 5)), ErrFull)
		giveUp()
		check.Is(t, <-heard, context.Canceled)
		check.Is(t, check.Err(g.Do(ctx, "k", 6)), context.Canceled)
		through <- struct{}{}
		if got := <-calls; got != "[2 4]" {
			t.Errorf("the second call is for %s", got)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		check.Is(t, g.Wait(soon), context.DeadlineExceeded)
		waited := make(chan error)
		go func() { waited <- g.Wait(t.Context()) }()
		through <- struct{}{}
		for range 3 {
			check.OK(t, <-heard)
		}
		check.OK(t, <-waited)
	})
}

// A batch is as large as its callers are, and one goes however large.
func TestBatchBySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, calls, through := stepped(Config[int, int]{Batch: 4, Size: func(q int) int { return q }})
		heard := make(chan error, 6)
		ask := asking(t, g, heard)
		ask(t.Context(), 1)
		if got := <-calls; got != "[1]" { // the other callers arrive during this call
			t.Errorf("the first call is for %s", got)
		}
		ask(t.Context(), 2, 2, 1, 9, 3)
		for _, want := range []string{"[2 2]", "[1]", "[9]", "[3]"} {
			through <- struct{}{}
			if got := <-calls; got != want {
				t.Fatalf("a call for %s, want %s", got, want)
			}
		}
		through <- struct{}{}
		for range 6 {
			check.OK(t, <-heard)
		}
	})
}

// Callers behind a call that hangs wait for as long as the group has patience. It
// is still waited for in the end.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, calls, through := stepped(Config[int, int]{Batch: 10, Patience: 10 * time.Millisecond, Calls: 1})
		heard := make(chan error, 3)
		ask := asking(t, g, heard)
		for i := range 3 {
			ask(t.Context(), i)
			if got := <-calls; got != fmt.Sprintf("[%d]", i) {
				t.Errorf("call %d is for %s", i, got)
			}
		}
		time.Sleep(g.Patience) // on the fake clock
		synctest.Wait()
		if len(g.keys) > 0 {
			t.Errorf("senders are left: %v", g.keys)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		check.Is(t, g.Wait(soon), context.DeadlineExceeded)
		close(through)
		for range 3 {
			check.OK(t, <-heard)
		}
		if err := g.Wait(t.Context()); err != nil || g.Len() != 0 {
			t.Errorf("%v, %d callers are left", err, g.Len())
		}
	})
}

// Tasks may begin anew after somebody has waited for their end.
func TestTasksAnew(t *testing.T) {
	var tasks Tasks
	for range 2 {
		end := make(chan struct{})
		tasks.Go(func() { <-end })
		time.AfterFunc(time.Millisecond, func() { close(end) })
		check.OK(t, tasks.Wait(t.Context()))
	}
}

// A call that hangs ends by its timeout, and so do the answers that it owes.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Config[int, int]{Timeout: 10 * time.Millisecond, Call: func(ctx context.Context, _ string, batch []*Caller[int, int]) {
			<-ctx.Done()
			batch[0].Err = ctx.Err()
		}})
		check.Is(t, check.Err(g.Do(t.Context(), "", 1)), context.DeadlineExceeded)
	})
}

// Who waits for longer than may be is not sent, and those behind are.
func TestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, calls, through := stepped(Config[int, int]{Batch: 10, MaxWait: 20 * time.Millisecond})
		heard, soon := make(chan error, 2), make(chan error, 1)
		ask := asking(t, g, heard)
		ask(t.Context(), 1)
		<-calls
		ask(t.Context(), 2)
		time.Sleep(g.MaxWait + 1) // on the fake clock
		go func() { _, err := g.Do(t.Context(), "k", 3); soon <- err }()
		synctest.Wait()
		through <- struct{}{}
		if got := <-calls; got != "[3]" {
			t.Errorf("the second call is for %s", got)
		}
		through <- struct{}{}
		if one, two := <-heard, <-heard; errors.Is(one, ErrLate) == errors.Is(two, ErrLate) {
			t.Errorf("the first two callers: %v, %v", one, two)
		}
		if err := <-soon; err != nil || g.Len() != 0 {
			t.Errorf("the last caller: %v, %d callers are left", err, g.Len())
		}
	})
}

// A lone caller makes the call itself and hears its answer, though its context has
// ended; those who come meanwhile do not. One whose deadline is near is not held up.
func TestSelf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, calls, through := stepped(Config[int, int]{Batch: 10, Self: true, Timeout: time.Minute})
		first, second, third := make(chan error, 1), make(chan error, 2), make(chan error, 1)
		ctx, giveUp := context.WithCancel(t.Context())
		asking(t, g, first)(ctx, 1)
		if got := <-calls; got != "[1]" {
			t.Errorf("the first call is for %s", got)
		}
		asking(t, g, second)(t.Context(), 2, 3)
		giveUp()
		through <- struct{}{}
		if err := <-first; err != nil {
			t.Errorf("the caller that made the call: %v", err)
		}
		if got := <-calls; got != "[2 3]" {
			t.Errorf("the second call is for %s", got)
		}
		through <- struct{}{}
		for range 2 {
			check.OK(t, <-second)
		}
		check.OK(t, g.Wait(t.Context()))
		near, cancel := context.WithTimeout(t.Context(), time.Second)
		asking(t, g, third)(near, 4)
		<-calls
		cancel()
		check.Is(t, <-third, context.Canceled)
		through <- struct{}{}
		if err := g.Wait(t.Context()); err != nil || g.Len() != 0 {
			t.Errorf("%v, %d callers are left", err, g.Len())
		}
	})
}

// Callers who are ready at the same moment go together, though each could make a
// call of its own. One thread has them ready all at once.
func TestSelfTakesAlong(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var mu sync.Mutex
	var calls []int
	others := make(chan struct{})
	g := New(Config[int, int]{Batch: 5, InFlight: 9, Self: true, Call: func(_ context.Context, key string, batch []*Caller[int, int]) {
		if key == "slow" {
			<-others
			return
		}
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, len(batch))
	}})
	var alone, all sync.WaitGroup
	alone.Go(func() { check.OK(t, check.Err(g.Do(t.Context(), "slow", 0))) }) // a batch of one caller
	check.Eventually(t, "the callers are there", func() bool { return g.Len() == 1 })
	for q := range 8 {
		all.Go(func() { check.OK(t, check.Err(g.Do(t.Context(), "", q))) })
	}
	all.Wait()
	close(others)
	alone.Wait()
	check.OK(t, g.Wait(t.Context()))
	if len(calls) > 4 {
		t.Errorf("calls for %v", calls)
	}
}

// Those whom a caller cannot take along wait for no more calls than there may be.
func TestSelfLeavesCallsToOthers(t *testing.T) {
	g, calls, through := stepped(Config[int, int]{Batch: 2, InFlight: 4, Self: true})
	join := func(key string, q int) (*waiting[int, int], *Caller[int, int]) {
		c := &Caller[int, int]{Ctx: t.Context(), Since: time.Now(), Q: q}
		w, _ := g.join(key, c)
		return w, c
	}
	company, other := join("other", 0)
	w, first := join("k", 1)
	for q := range 9 {
		join("k", q+2) // before the first makes its call
	}
	go g.sendOwn("other", company, other)
	go g.sendOwn("k", w, first)
	for range 1 + 4 {
		<-calls
	}
	close(through)
	<-calls
	check.OK(t, g.Wait(t.Context()))
}

// Where callers do not share calls, nobody waits to be taken along.
func TestSelfAlone(t *testing.T) {
	g := New(Config[int, int]{InFlight: 2, Self: true})
	for q := range 2 {
		if _, own := g.join("k", &Caller[int, int]{Ctx: t.Context(), Since: time.Now(), Q: q}); !own {
			t.Errorf("caller %d waits for another", q)
		}
	}
}
