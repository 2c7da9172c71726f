package coalesce

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flashsale/loadtest/servers/servertest/check"
)

// A lone caller makes the call itself and receives the answer, even if its context has
// ended. Later callers go to a goroutine, and so does a caller with a near deadline.
func TestSelf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, calls, through := stepped(Config[int, int]{MaxBatch: 10, CallerRuns: true, Timeout: time.Minute})
		first, second, third := make(chan error, 1), make(chan error, 2), make(chan error, 1)
		ctx, giveUp := context.WithCancel(t.Context())
		asking(t, g, first)(ctx, 1)
		if got := <-calls; got != "[1]" {
			t.Errorf("first call: got the callers %s, want [1]", got)
		}
		asking(t, g, second)(t.Context(), 2, 3)
		giveUp()
		through <- struct{}{}
		if err := <-first; err != nil {
			t.Errorf("caller that made the call: got error %v, want its answer", err)
		}
		if got := <-calls; got != "[2 3]" {
			t.Errorf("second call: got the callers %s, want the waiting callers [2 3]", got)
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
			t.Errorf("Wait: got error %v with %d callers left, want none", err, g.Len())
		}
	})
}

// Callers that are ready at the same moment share a call, although each could make its
// own. With one thread, all of them are ready at once.
func TestLeaderTakesCallersAlong(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var mu sync.Mutex
	var calls []int
	others := make(chan struct{})
	g := New(Config[int, int]{MaxBatch: 5, MaxInFlight: 9, CallerRuns: true, Call: func(_ context.Context, key string, batch []*Caller[int, int]) {
		if key == "slow" {
			<-others
			return
		}
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, len(batch))
	}})
	var alone, all sync.WaitGroup
	alone.Go(func() { check.OK(t, check.Err(g.Do(t.Context(), "slow", 0))) }) // a lone caller
	check.Eventually(t, "the slow call has begun", func() bool { return g.Len() == 1 })
	for q := range 8 {
		all.Go(func() { check.OK(t, check.Err(g.Do(t.Context(), "", q))) })
	}
	all.Wait()
	close(others)
	alone.Wait()
	check.OK(t, g.Wait(t.Context()))
	if len(calls) > 4 {
		t.Errorf("calls of the leaders: got one for each of the callers %v, want at most 4 calls", calls)
	}
}

// If a leader cannot take all callers along, goroutines make further calls, within MaxInFlight.
func TestLeaderKeepsTheBoundOfCalls(t *testing.T) {
	g, calls, through := stepped(Config[int, int]{MaxBatch: 2, MaxInFlight: 4, CallerRuns: true})
	join := func(key string, q int) (*waiting[int, int], *Caller[int, int]) {
		c := &Caller[int, int]{Ctx: t.Context(), Since: time.Now(), Q: q}
		w, _ := g.join(key, c)
		return w, c
	}
	company, other := join("other", 0)
	w, first := join("k", 1)
	for q := range 9 {
		join("k", q+2) // before the leader makes its call
	}
	go g.lead("other", company, other)
	go g.lead("k", w, first)
	for range 1 + 4 {
		<-calls
	}
	close(through)
	<-calls
	check.OK(t, g.Wait(t.Context()))
}

// With a batch size of 1, no caller waits for a leader.
func TestLeadersWithoutBatchesDoNotWait(t *testing.T) {
	g := New(Config[int, int]{MaxInFlight: 2, CallerRuns: true})
	for q := range 2 {
		if _, leads := g.join("k", &Caller[int, int]{Ctx: t.Context(), Since: time.Now(), Q: q}); !leads {
			t.Errorf("caller %d: it waits for a leader, want it to lead", q)
		}
	}
}
