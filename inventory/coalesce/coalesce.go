// Package coalesce has the callers of one moment share a call: whoever comes
// while a call is in flight waits, and shares the next one with all who wait.
// There is no timer: a caller who comes alone is served at once, and the more
// callers come the larger are the batches.
package coalesce

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
)

// ErrFull refuses a caller because as many as may be in a Group are there.
var ErrFull = errors.New("coalesce: too many callers")

// ErrLate is what a caller hears who has waited for longer than MaxWait.
var ErrLate = errors.New("coalesce: waited too long for the calls before")

// Config of a Group. Call is required.
type Config[Q, A any] struct {
	// Call makes one call for callers with the same key. It sets the Answer of
	// each of them, or the Err. Its context is not any caller's: one who gives up
	// does not end what others wait for.
	Call func(ctx context.Context, key string, batch []*Caller[Q, A])
	// Batch is how many callers share a call, at most. Default 1.
	Batch int
	// Size, where set, is how many callers one counts for in Batch. A caller who
	// is larger than Batch goes alone.
	Size func(Q) int
	// InFlight is how many calls with one key are under way at once, at most.
	// Default 1.
	InFlight int
	// Calls is how many calls are under way at once, at most, with any key; 0 for
	// no bound.
	Calls int
	// Patience is after how long a call no longer counts as under way, so that one
	// that hangs does not hold up the callers behind it; 0 for never.
	Patience time.Duration
	// Callers is how many may be in the Group at once, at most, with any key: a
	// server that hangs must not fill the memory. Whoever gives up is among them
	// until the next call with that key. 0 for no bound.
	Callers int
	// Timeout of one call; 0 for none.
	Timeout time.Duration
	// MaxWait is how long a caller waits for its call to begin, at most. Then it is
	// not sent: behind a slow server the last would wait for all before it. It hears
	// ErrLate when the next call begins. 0 for no bound.
	MaxWait time.Duration
	// Self has a caller make the call itself where one may begin, for itself and for
	// those who are ready at the same moment: a goroutine that is woken for a lone
	// caller costs more than a fast server's answer. Such a caller waits for the answer
	// even if its context ends. One whose deadline is nearer than Timeout leaves the call
	// to a goroutine. No effect where Calls or Patience is set.
	Self bool
	// Tasks, where set, counts the Group's goroutines among others of its owner.
	Tasks *Tasks
}

// A Group collects callers. It is safe for concurrent use. Its owner calls Wait
// when no more callers come.
type Group[Q, A any] struct {
	Config[Q, A]
	calls chan struct{} // as many as are under way; nil for no bound

	mu      sync.Mutex
	keys    map[string]*waiting[Q, A] // those with which somebody is there
	spare   *waiting[Q, A]            // for the next key; nil for none
	callers int
}

// waiting are the callers with one key that no call has taken along yet.
type waiting[Q, A any] struct {
	callers   []*Caller[Q, A]
	inFlight  int
	gathering bool // one who sends for itself is about to take along who is here
}

// A Caller is one who has called Do.
type Caller[Q, A any] struct {
	Ctx    context.Context // the caller's
	Since  time.Time       // when it came
	Q      Q
	Answer A
	Err    error

	done chan struct{} // nil for one who makes the call
	// gathers: it lets others run before it makes the call, and takes them along. One
	// who is alone does not: that costs as much as a short way to Redis.
	gathers bool
	one     [1]*Caller[Q, A]
}

// New returns a Group.
func New[Q, A any](o Config[Q, A]) *Group[Q, A] {
	o.Self = o.Self && o.Calls <= 0 && o.Patience <= 0
	o.Batch, o.InFlight = max(o.Batch, 1), max(o.InFlight, 1)
	if o.Size == nil {
		o.Size = func(Q) int { return 1 }
	}
	if o.Tasks == nil {
		o.Tasks = new(Tasks)
	}
	g := &Group[Q, A]{Config: o, keys: map[string]*waiting[Q, A]{}}
	if o.Calls > 0 {
		g.calls = make(chan struct{}, o.Calls)
	}
	return g
}

// Do has q answered by a call that begins after Do was called. A caller whose
// context ends before its call begins is not part of any call; later, what it asked
// for may come about.
//
// Errors: ErrFull and ErrLate, and then nothing has happened; the context's cause;
// that of the call. An answer that is there counts, whatever became of the context.
func (g *Group[Q, A]) Do(ctx context.Context, key string, q Q) (none A, _ error) {
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	c := &Caller[Q, A]{Ctx: ctx, Since: time.Now(), Q: q}
	w, own := g.join(key, c)
	switch {
	case w == nil:
		return none, ErrFull
	case own:
		g.sendOwn(key, w, c)
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

// join has c wait, and a call begin unless enough are under way. With own the call
// is c's to make. It returns nil where the Group is full.
func (g *Group[Q, A]) join(key string, c *Caller[Q, A]) (w *waiting[Q, A], own bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.Callers > 0 && g.callers == g.Callers {
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
	begin := w.inFlight < g.InFlight && !w.gathering
	if begin {
		w.inFlight++
		if end, ends := c.Ctx.Deadline(); g.Self && (!ends || end.Sub(c.Since) >= g.Timeout) {
			g.Tasks.begin()
			c.gathers = g.Batch > 1 && g.callers > 1
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

// Wait returns when no call is under way and nobody waits for one, or with the
// context's error.
func (g *Group[Q, A]) Wait(ctx context.Context) error { return g.Tasks.Wait(ctx) }

// Len is how many callers are in the Group.
func (g *Group[Q, A]) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.callers
}

// send makes one call after the other until nobody waits.
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

// sendOwn makes the call of a caller who sends for itself, for all who came in the
// same moment, and leaves those who came after it to a goroutine.
func (g *Group[Q, A]) sendOwn(key string, w *waiting[Q, A], c *Caller[Q, A]) {
	defer g.Tasks.done()
	if c.gathers {
		runtime.Gosched() // who is ready now comes along
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

// next takes those who wait and have not given up. A caller who sends for itself is own:
// it comes before them. Where nobody is left, next ends this sender. Both happen under
// one lock, or a caller who comes in between would wait for ever.
func (g *Group[Q, A]) next(key string, w *waiting[Q, A], own *Caller[Q, A]) []*Caller[Q, A] {
	g.mu.Lock()
	defer g.mu.Unlock()
	batch, taken, size := w.callers[:0], 0, 0 // in place: who is kept moves to the front
	if own != nil {
		batch, w.gathering = nil, false
		if g.isGone(own) {
			g.callers--
		} else {
			own.one[0] = own
			batch, size = own.one[:], g.Size(own.Q)
		}
	}
	for _, c := range w.callers {
		if g.isGone(c) {
			g.callers--
		} else if size += g.Size(c.Q); size > g.Batch && len(batch) > 0 {
			break
		} else {
			batch = append(batch, c)
		}
		taken++
	}
	kept := len(batch)
	if own != nil {
		kept = 0 // the batch has an array of its own
	}
	clear(w.callers[kept:taken])
	w.callers = w.callers[taken:]
	if own != nil { // for those who came meanwhile, none of whom began a call
		for left := len(w.callers); left > 0 && w.inFlight < g.InFlight; left -= g.Batch {
			w.inFlight++
			g.Tasks.Go(func() { g.send(key, w) })
		}
	}
	if len(batch) > 0 {
		return slices.Clip(batch) // what follows in the array are those who wait on
	}
	if w.inFlight--; w.inFlight == 0 {
		delete(g.keys, key)
		g.spare = w
	}
	return nil
}

// isGone tells whether c has given up, or has waited for too long, and then tells c.
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

// callPatiently returns when a call has returned, or counts no longer.
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

// call makes one call and hands out its answers.
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
	clear(batch) // those who wait may keep the array
}
