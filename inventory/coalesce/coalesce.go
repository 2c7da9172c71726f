// Package coalesce lets concurrent callers share calls. A caller that arrives while a
// call is in flight waits, and shares the next call with all other waiting callers. There
// is no timer: a lone caller is served at once, and batches grow with the number of
// callers.
package coalesce

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
)

// ErrFull is returned if Config.MaxCallers callers are in the Group already.
var ErrFull = errors.New("coalesce: too many callers wait for a call")

// ErrLate is returned to a caller that has waited for longer than Config.MaxWait.
var ErrLate = errors.New("coalesce: the caller waited too long for earlier calls")

// Config holds the settings of a Group. Only Call is required.
type Config[Q, A any] struct {
	// Call makes one call for callers with the same key. It sets Answer or Err of each
	// caller. Its context does not depend on the callers' contexts, so a caller that
	// gives up does not end the call of the other callers.
	Call func(ctx context.Context, key string, batch []*Caller[Q, A])
	// MaxBatch is the largest number of callers that share a call. Default 1.
	MaxBatch int
	// Size returns the number of callers that a request counts for in MaxBatch. Default 1. A
	// request larger than MaxBatch is sent alone.
	Size func(Q) int
	// MaxInFlight is the largest number of concurrent calls with one key. Default 1.
	MaxInFlight int
	// MaxCalls is the largest number of concurrent calls with any key. 0 means no bound.
	MaxCalls int
	// Patience is the time after which a call no longer counts for MaxInFlight and MaxCalls, so
	// that a call that hangs does not block later callers. 0 means no bound.
	Patience time.Duration
	// MaxCallers is the largest number of callers in the Group, with any key. It bounds the
	// memory in use while a server hangs. A caller that gives up counts until the next
	// call with its key. 0 means no bound.
	MaxCallers int
	// Timeout bounds one call. 0 means no bound.
	Timeout time.Duration
	// MaxWait is the longest time that a caller waits for its call to begin. After that
	// time the caller is in no call, and receives ErrLate when the next call begins. 0
	// means no bound.
	MaxWait time.Duration
	// CallerRuns lets a caller make the call itself if a call may begin. The caller that makes
	// the call, the leader, takes along the callers that are ready at the same moment. This saves
	// waking a goroutine, which costs more than a fast server's answer. A leader waits for the
	// answer even if its context ends. A caller whose deadline is nearer than Timeout leaves the
	// call to a goroutine. CallerRuns has no effect if MaxCalls or Patience is set.
	CallerRuns bool
	// Tasks, if not nil, counts the Group's goroutines together with other goroutines of
	// the owner.
	Tasks *Tasks
}

// A Group collects callers. It is safe for concurrent use. Its owner calls Wait after the
// last call of Do.
type Group[Q, A any] struct {
	Config[Q, A]
	calls chan struct{} // semaphore for Config.MaxCalls; nil for no bound

	mu      sync.Mutex
	keys    map[string]*waiting[Q, A] // entries only for keys with callers or calls
	spare   *waiting[Q, A]            // reused for the next new key
	callers int
}

// waiting holds the callers with one key that are in no call yet.
type waiting[Q, A any] struct {
	callers   []*Caller[Q, A]
	inFlight  int
	gathering bool // a leader is about to take the callers along
}

// A Caller is one call of Do.
type Caller[Q, A any] struct {
	Ctx    context.Context
	Since  time.Time // start of Do
	Q      Q
	Answer A
	Err    error

	done chan struct{} // nil for a leader
	// gathers is set if a leader lets other goroutines run first and takes their callers
	// along. A leader that is alone does not, because that costs as much as a short round
	// trip to Redis.
	gathers bool
	one     [1]*Caller[Q, A]
}

// New returns a Group.
func New[Q, A any](o Config[Q, A]) *Group[Q, A] {
	o.CallerRuns = o.CallerRuns && o.MaxCalls <= 0 && o.Patience <= 0
	o.MaxBatch, o.MaxInFlight = max(o.MaxBatch, 1), max(o.MaxInFlight, 1)
	if o.Size == nil {
		o.Size = func(Q) int { return 1 }
	}
	if o.Tasks == nil {
		o.Tasks = new(Tasks)
	}
	g := &Group[Q, A]{Config: o, keys: map[string]*waiting[Q, A]{}}
	if o.MaxCalls > 0 {
		g.calls = make(chan struct{}, o.MaxCalls)
	}
	return g
}

// Do returns the answer of a call that begins after Do was called. If ctx ends before
// that call begins, the caller is in no call. If ctx ends later, the request may still be
// carried out.
//
// Do returns ErrFull or ErrLate if nothing was done, the cause of ctx, or the error of
// the call. If the answer is ready, Do returns it even if ctx has ended.
func (g *Group[Q, A]) Do(ctx context.Context, key string, q Q) (none A, _ error) {
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	c := &Caller[Q, A]{Ctx: ctx, Since: time.Now(), Q: q}
	w, leads := g.join(key, c)
	switch {
	case w == nil:
		return none, ErrFull
	case leads:
		g.lead(key, w, c)
		return c.Answer, c.Err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		select {
		case <-c.done:
		default:
			return none, context.Cause(ctx)
		}
	}
	return c.Answer, c.Err
}

// join adds c to the callers with key, and begins a call unless enough are in flight. If
// leads is true, c must make that call. join returns nil if the Group is full.
func (g *Group[Q, A]) join(key string, c *Caller[Q, A]) (w *waiting[Q, A], leads bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.MaxCallers > 0 && g.callers == g.MaxCallers {
		return nil, false
	}
	g.callers++
	if w = g.keys[key]; w == nil {
		w, g.spare = g.spare, nil
		if w == nil {
			w = &waiting[Q, A]{}
		}
		g.keys[key] = w
	}
	begin := w.inFlight < g.MaxInFlight && !w.gathering
	if begin {
		w.inFlight++
		if end, ends := c.Ctx.Deadline(); g.CallerRuns && (!ends || end.Sub(c.Since) >= g.Timeout) {
			g.Tasks.begin()
			c.gathers = g.MaxBatch > 1 && g.callers > 1
			w.gathering = c.gathers
			return w, true
		}
	}
	c.done = make(chan struct{})
	w.callers = append(w.callers, c)
	if begin {
		g.Tasks.Go(func() { g.send(key, w) })
	}
	return w, false
}

// Wait returns when no call is in flight and no caller waits, or with the context's
// error.
func (g *Group[Q, A]) Wait(ctx context.Context) error { return g.Tasks.Wait(ctx) }

// Len returns the number of callers in the Group.
func (g *Group[Q, A]) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.callers
}

// send makes calls until no caller waits.
func (g *Group[Q, A]) send(key string, w *waiting[Q, A]) {
	for {
		if g.calls != nil {
			g.calls <- struct{}{}
		}
		batch := g.next(key, w, nil)
		if batch != nil {
			g.callPatiently(key, batch)
		}
		if g.calls != nil {
			<-g.calls
		}
		if batch == nil {
			return
		}
	}
}

// lead makes the call of a leader, for the leader and for the callers that arrived at the
// same moment. It leaves later callers to a goroutine.
func (g *Group[Q, A]) lead(key string, w *waiting[Q, A], c *Caller[Q, A]) {
	defer g.Tasks.done()
	if c.gathers {
		runtime.Gosched() // gives ready callers time to join
	}
	batch := g.next(key, w, c)
	if batch != nil && batch[0] == c {
		g.call(key, batch)
		batch = g.next(key, w, nil)
	} else if c.Err == nil {
		c.Err = context.Cause(c.Ctx)
	}
	if batch != nil {
		g.Tasks.Go(func() {
			g.call(key, batch)
			g.send(key, w)
		})
	}
}

// next removes the callers of the next batch from w, with the leader first if there is
// one. It omits callers that have given up. If no caller is left, next ends this sender.
// The lock covers both. Otherwise a caller that arrives in between would wait forever.
func (g *Group[Q, A]) next(key string, w *waiting[Q, A], leader *Caller[Q, A]) []*Caller[Q, A] {
	g.mu.Lock()
	defer g.mu.Unlock()
	batch, taken, size := w.callers[:0], 0, 0 // in place: batch overwrites the front of w.callers
	if leader != nil {
		batch, w.gathering = nil, false
		if g.isGone(leader) {
			g.callers--
		} else {
			leader.one[0] = leader
			batch, size = leader.one[:], g.Size(leader.Q)
		}
	}
	for _, c := range w.callers {
		if g.isGone(c) {
			g.callers--
		} else if size += g.Size(c.Q); size > g.MaxBatch && len(batch) > 0 {
			break
		} else {
			batch = append(batch, c)
		}
		taken++
	}
	kept := len(batch)
	if leader != nil {
		kept = 0 // batch has its own array
	}
	clear(w.callers[kept:taken])
	w.callers = w.callers[taken:]
	if leader != nil { // callers that arrived while the leader gathered began no call
		for left := len(w.callers); left > 0 && w.inFlight < g.MaxInFlight; left -= g.MaxBatch {
			w.inFlight++
			g.Tasks.Go(func() { g.send(key, w) })
		}
	}
	if len(batch) > 0 {
		return slices.Clip(batch) // waiting callers follow in the array
	}
	if w.inFlight--; w.inFlight == 0 {
		delete(g.keys, key)
		g.spare = w
	}
	return nil
}

// isGone reports whether c has given up or has waited for too long. If it has waited for
// too long, c receives ErrLate.
func (g *Group[Q, A]) isGone(c *Caller[Q, A]) bool {
	if c.Ctx.Err() != nil {
		return true
	}
	if g.MaxWait <= 0 || time.Since(c.Since) <= g.MaxWait {
		return false
	}
	c.Err = ErrLate
	if c.done != nil {
		close(c.done)
	}
	return true
}

// callPatiently makes a call, and returns when the call has returned or after Patience.
func (g *Group[Q, A]) callPatiently(key string, batch []*Caller[Q, A]) {
	if g.Patience <= 0 {
		g.call(key, batch)
		return
	}
	returned := make(chan struct{})
	g.Tasks.Go(func() {
		defer close(returned)
		g.call(key, batch)
	})
	select {
	case <-returned:
	case <-time.After(g.Patience):
	}
}

// call makes one call for the batch and wakes its callers.
func (g *Group[Q, A]) call(key string, batch []*Caller[Q, A]) {
	ctx := context.Background()
	if g.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, g.Timeout)
		defer cancel()
	}
	g.Call(ctx, key, batch)
	g.mu.Lock()
	g.callers -= len(batch)
	g.mu.Unlock()
	for _, c := range batch {
		if c.done != nil {
			close(c.done)
		}
	}
	clear(batch) // waiting callers may keep the array in use
}
