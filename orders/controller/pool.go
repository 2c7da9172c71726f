package controller

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"flashsale/orders"
	"flashsale/orders/keeper"
	"flashsale/orders/lock/lease"
)

// A pool runs the passes of this node's keepers. It is a work queue by SKU: a few workers
// serve all SKUs, one pass each in turn. It uses no store itself.
type pool struct {
	cfg    KeeperConfig
	log    *slog.Logger
	count  *keeper.Counters
	wrote  func(sku string) time.Time // when this node last wrote to both stores of sku; zero for never
	places chan struct{}              // passes that do more than drain a queue
	calls  chan struct{}              // due has grown; as many as there are workers

	mu           sync.Mutex
	slots        map[string]*slot
	due          []*slot              // to be run, oldest first
	backoffUntil map[string]time.Time // until when not to take a SKU
}

// A slot is a keeper and what it has to do. The pool's mu guards it, but for
// the keeper, which belongs to the pass under way.
type slot struct {
	*keeper.Keeper
	sku  string
	held interface { // the SKU's lock
		Context() context.Context
		Release(ctx context.Context) error
	}
	aliveAt         time.Time   // the last sign of life when the pass under way began
	todo            keeper.Work // of the next pass
	doing           keeper.Work // of the pass under way
	queued, running bool
	failures        int           // passes in a row that ended in an error
	stopped         chan struct{} // closed once the slot is removed and no pass of it runs
	backlog         backlog

	schedule
}

// A backlog is the queue of a SKU when resync last read it. If Redis cannot be read, the
// backlog stays, and its age grows.
type backlog struct {
	orders int64
	since  time.Time // when its oldest order was reserved, by this process's clock; zero: not known
}

// draining is how many SKUs more may be served at once: those that only have orders to
// commit wait for a transaction that they share, with no connection of their own.
const draining = 40

func newPool(cfg KeeperConfig, log *slog.Logger, count *keeper.Counters, wrote func(sku string) time.Time) *pool {
	return &pool{
		cfg: cfg, log: log, count: count, wrote: wrote,
		places: make(chan struct{}, Workers), calls: make(chan struct{}, draining+Workers),
		slots: map[string]*slot{}, backoffUntil: map[string]time.Time{},
	}
}

// run serves slots until ctx ends. Passes that are under way then may end within one
// lease.
func (p *pool) run(ctx context.Context) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(p.cfg.Lease, cancel) })()
	var workers sync.WaitGroup
	for range draining + Workers {
		workers.Go(func() { p.work(ctx, late) })
	}
	workers.Wait()
}

// work serves slots until ctx ends, one pass each, in turn: a busy SKU does
// not keep the others waiting for longer than one batch. What is still due
// when ctx ends is another node's to do.
func (p *pool) work(ctx, late context.Context) {
	for ctx.Err() == nil {
		s := p.next()
		if s == nil {
			select {
			case <-ctx.Done():
			case <-p.calls:
			}
			continue
		}
		if p.start(s) {
			p.serve(s, late)
		}
	}
}

func (p *pool) next() *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.due) == 0 {
		return nil
	}
	s := p.due[0]
	p.due[0], p.due = nil, p.due[1:]
	if len(p.due) > 0 {
		signal(p.calls)
	}
	return s
}

// start begins a pass of s. It returns false if s was removed while it stood in line: its
// lock may be another node's by now.
func (p *pool) start(s *slot) bool {
	wrote := p.wrote(s.sku)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slots[s.sku] != s {
		return false
	}
	s.aliveAt = s.lastAlive(wrote)
	s.queued, s.running = false, true
	s.doing, s.todo = s.todo, 0
	s.later &^= s.doing
	return true
}

// lastAlive returns s's last sign of life, where its node last wrote to both stores at
// wrote. The caller has mu.
func (s *slot) lastAlive(wrote time.Time) time.Time {
	at := s.Progressed()
	if s.aliveAt.After(at) {
		at = s.aliveAt
	}
	if !s.running && s.failures == 0 && wrote.After(at) {
		return wrote
	}
	return at
}

// serve runs one pass of s, until late at most, and never past the lease. It
// returns when the pass has to end, whether it does or not: a worker must not
// hang with it.
func (p *pool) serve(s *slot, late context.Context) {
	ctx, cancel := context.WithCancelCause(s.held.Context())
	defer context.AfterFunc(late, func() { cancel(context.Cause(late)) })()
	if s.doing != keeper.Drain {
		select {
		case p.places <- struct{}{}:
			defer func() { <-p.places }()
		case <-ctx.Done(): // and so will the pass
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel(nil)
		left, err := s.Pass(ctx, s.doing)
		if fenced := p.finish(s, left, err); fenced {
			p.drop(s, 0, time.Second)
		}
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// A pass that failed is tried again: a store is away, most likely.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 400 * time.Millisecond
)

// finish records the end of a pass, and the work that is left. It reports whether another
// node's keeper has taken over.
func (p *pool) finish(s *slot, left keeper.Work, err error) (fenced bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.running, s.doing = false, 0
	s.later |= left & keeper.Later
	s.todo |= left &^ keeper.Later
	if p.slots[s.sku] != s {
		close(s.stopped) // somebody is waiting for this pass to end
		return false
	}
	if err == nil {
		if s.failures > 0 {
			p.log.Info("keeper works again", "sku", s.sku)
		}
		s.failures = 0
		if s.todo != 0 {
			p.enqueue(s, 0)
		}
		return false
	}
	s.failures++
	p.count.Failed.Add(1)
	if errors.Is(err, orders.ErrFenced) {
		p.count.Fenced.Add(1)
		p.log.Warn("another keeper has taken over", "sku", s.sku, "fence", s.Fence(), "error", err)
		return true
	}
	if s.failures == 1 { // said once, tried until it works
		p.log.Warn("keeper's pass failed", "sku", s.sku, "error", err)
	}
	pause := min(firstRetry<<min(s.failures-1, 8), lastRetry)
	time.AfterFunc(pause/2+rand.N(pause), func() { p.wake(s.sku, keeper.Drain) })
	return false
}

// wake has the keeper of sku do some work soon, and reports whether this node keeps it.
func (p *pool) wake(sku string, todo keeper.Work) bool {
	return p.update(sku, func(*slot) keeper.Work { return todo })
}

// update calls change with the slot of sku, and enqueues the work that change returns. It
// reports whether this node keeps sku. The pool's mu is held meanwhile.
func (p *pool) update(sku string, change func(*slot) keeper.Work) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.slots[sku]
	if s == nil {
		return false
	}
	if todo := change(s); todo != 0 {
		p.enqueue(s, todo)
	}
	return true
}

// enqueue has a pass of s do some work: the next one, where one is under way. The
// caller has mu.
func (p *pool) enqueue(s *slot, todo keeper.Work) {
	s.todo |= todo
	if !s.running && !s.queued {
		s.queued = true
		p.due = append(p.due, s)
		signal(p.calls)
	}
}

// add begins to serve s, until its lock ends.
func (p *pool) add(s *slot) {
	p.mu.Lock()
	p.slots[s.sku] = s
	p.enqueue(s, keeper.Release|keeper.Inspect)
	p.mu.Unlock()
	held := s.held.Context()
	context.AfterFunc(held, func() {
		if cause := context.Cause(held); errors.Is(cause, lease.ErrLost) {
			p.count.Lost.Add(1)
			p.log.Warn("lock of a SKU lost", "sku", s.sku, "cause", cause)
		}
		p.drop(s, 0, 0)
	})
}

// drop removes a slot and releases its lock. A pass that is under way may end first,
// within timeout. This node does not take the SKU again for the time backoff.
func (p *pool) drop(s *slot, timeout, backoff time.Duration) {
	running, ok := p.remove(s, backoff)
	if !ok {
		return
	}
	if running {
		select {
		case <-s.stopped:
		case <-time.After(timeout):
		}
	}
	p.release(s)
}

// remove removes a slot, so that no further pass of it begins. It returns false if the
// slot was removed before.
func (p *pool) remove(s *slot, backoff time.Duration) (running, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slots[s.sku] != s {
		return false, false
	}
	delete(p.slots, s.sku)
	if backoff > 0 {
		p.backoffUntil[s.sku] = time.Now().Add(backoff)
	}
	return s.running, true
}

// release releases the lock of a slot that was removed, which ends its pass, if there is
// one: after the last commit, unless the pass hangs. What comes later the fence refuses.
func (p *pool) release(s *slot) {
	if errors.Is(context.Cause(s.held.Context()), lease.ErrLost) {
		return // there is no lock to release, and often no store that answers
	}
	if err := s.held.Release(context.Background()); err != nil { // within a time of its own
		p.log.Debug("lock not released", "sku", s.sku, "error", err)
	}
}

func (p *pool) all() map[string]*slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.slots)
}

func (p *pool) skus() []string { return slices.Collect(maps.Keys(p.all())) }

// backsOff reports whether this node must not take sku yet.
func (p *pool) backsOff(sku string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.backoffUntil[sku])
}
