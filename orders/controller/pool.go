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

// A pool runs the passes of this node's keepers. It is a queue of SKUs: a fixed number of
// workers serve all SKUs in turn, one pass each. The pool itself uses no store.
type pool struct {
	cfg      KeeperConfig
	log      *slog.Logger
	counters *keeper.Counters
	wrote    func(sku string) time.Time // returns when this node last wrote to both stores of sku, or the zero time
	places   chan struct{}              // an element for each running pass that does more than drain a queue
	wakeups  chan struct{}              // an element wakes an idle worker; sent when slots are due

	mu           sync.Mutex
	slots        map[string]*slot
	due          []*slot              // slots that wait for a pass, oldest first
	backoffUntil map[string]time.Time // SKU → time until which this node must not take it
}

// A slot holds a keeper and its work. The pool's mu guards the slot, except for the keeper,
// which only the current pass uses.
type slot struct {
	*keeper.Keeper
	sku  string
	lock interface { // the SKU's lock
		Context() context.Context
		Release(ctx context.Context) error
	}
	progressAt      time.Time   // time of the last progress before the current pass
	todo            keeper.Work // work for the next pass
	doing           keeper.Work // work of the current pass
	queued, running bool
	failures        int           // number of consecutive passes that failed
	stopped         chan struct{} // closed when the slot is removed and its last pass has ended
	backlog         backlog

	schedule
}

// A backlog describes the queue of a SKU as the last resync read it. While Redis is down, the
// backlog stays the same and its age grows.
type backlog struct {
	orders int64
	since  time.Time // time at which the oldest queued order was accepted, on this process's clock; zero if not known
}

// drainWorkers is the number of workers besides Workers. Passes that only commit orders wait
// for a shared transaction and need no database connection of their own.
const drainWorkers = 40

func newPool(cfg KeeperConfig, log *slog.Logger, counters *keeper.Counters, wrote func(sku string) time.Time) *pool {
	return &pool{
		cfg: cfg, log: log, counters: counters, wrote: wrote,
		places: make(chan struct{}, Workers), wakeups: make(chan struct{}, drainWorkers+Workers),
		slots: map[string]*slot{}, backoffUntil: map[string]time.Time{},
	}
}

// run serves slots until ctx ends. It then gives running passes one lease to end.
func (p *pool) run(ctx context.Context) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(p.cfg.Lease, cancel) })()
	var workers sync.WaitGroup
	for range drainWorkers + Workers {
		workers.Go(func() { p.work(ctx, late) })
	}
	workers.Wait()
}

// work serves slots until ctx ends, one pass at a time. A busy SKU therefore delays other SKUs
// by no more than a pass. Slots that are still due when ctx ends are left to other nodes.
func (p *pool) work(ctx, late context.Context) {
	for ctx.Err() == nil {
		s := p.next()
		if s == nil {
			select {
			case <-ctx.Done():
			case <-p.wakeups:
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
		signal(p.wakeups)
	}
	return s
}

// start starts a pass of s. It returns false if s was removed while it was due, because
// another node may have its lock by now.
func (p *pool) start(s *slot) bool {
	wrote := p.wrote(s.sku)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slots[s.sku] != s {
		return false
	}
	s.progressAt = s.lastProgress(wrote)
	s.queued, s.running = false, true
	s.doing, s.todo = s.todo, 0
	s.later &^= s.doing
	return true
}

// lastProgress returns the time of the last progress of s. The node's last write to both
// stores, at wrote, counts as progress of a slot that is idle and has not failed. The caller
// holds the pool's mu.
func (s *slot) lastProgress(wrote time.Time) time.Time {
	at := s.LastProgress()
	if s.progressAt.After(at) {
		at = s.progressAt
	}
	if !s.running && s.failures == 0 && wrote.After(at) {
		return wrote
	}
	return at
}

// serve runs one pass of s. The pass is cancelled when its lock or the context late ends.
// serve then returns even if the pass hangs, so that the worker can serve other SKUs.
func (p *pool) serve(s *slot, late context.Context) {
	ctx, cancel := context.WithCancelCause(s.lock.Context())
	defer context.AfterFunc(late, func() { cancel(context.Cause(late)) })()
	if s.doing != keeper.DrainQueue {
		select {
		case p.places <- struct{}{}:
			defer func() { <-p.places }()
		case <-ctx.Done(): // the pass fails at once
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

// A failed pass is repeated after a random pause, whose mean grows from firstRetry to lastRetry.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 400 * time.Millisecond
)

// finish records the result of a pass and the work that is left. It reports whether another
// node's keeper has taken over.
func (p *pool) finish(s *slot, left keeper.Work, err error) (fenced bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.running, s.doing = false, 0
	s.later |= left & keeper.Later
	s.todo |= left &^ keeper.Later
	if p.slots[s.sku] != s {
		close(s.stopped) // drop waits for the end of this pass
		return false
	}
	if err == nil {
		if s.failures > 0 {
			p.log.Info("keeper's pass succeeded: the keeper works again", "sku", s.sku)
		}
		s.failures = 0
		if s.todo != 0 {
			p.enqueue(s, 0)
		}
		return false
	}
	s.failures++
	p.counters.Failed.Add(1)
	if errors.Is(err, orders.ErrFenced) {
		p.counters.Fenced.Add(1)
		p.log.Warn("keeper stopped: another keeper has taken over the SKU", "sku", s.sku, "fence", s.Fence(), "error", err)
		return true
	}
	if s.failures == 1 { // later failures are not logged
		p.log.Warn("keeper's pass failed and will be retried: orders of the SKU stay queued until then", "sku", s.sku, "error", err)
	}
	pause := min(firstRetry<<min(s.failures-1, 8), lastRetry)
	time.AfterFunc(pause/2+rand.N(pause), func() { p.wake(s.sku, keeper.DrainQueue) })
	return false
}

// wake schedules work for the keeper of sku, and reports whether this node keeps sku.
func (p *pool) wake(sku string, todo keeper.Work) bool {
	return p.update(sku, func(*slot) keeper.Work { return todo })
}

// update calls change with the slot of sku while it holds the pool's mu, and schedules the
// work that change returns. It reports whether this node keeps sku.
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

// enqueue adds work to the next pass of s. It makes s due, unless a pass of s is running: then
// finish does so. The caller holds the pool's mu.
func (p *pool) enqueue(s *slot, todo keeper.Work) {
	s.todo |= todo
	if !s.running && !s.queued {
		s.queued = true
		p.due = append(p.due, s)
		signal(p.wakeups)
	}
}

// add serves s until its lock ends.
func (p *pool) add(s *slot) {
	p.mu.Lock()
	p.slots[s.sku] = s
	p.enqueue(s, keeper.ReleaseHolds|keeper.CorrectGate)
	p.mu.Unlock()
	ctx := s.lock.Context()
	context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); errors.Is(cause, lease.ErrLost) {
			p.counters.LocksLost.Add(1)
			p.log.Warn("lock of the SKU lost: its keeper on this node stops", "sku", s.sku, "cause", cause)
		}
		p.drop(s, 0, 0)
	})
}

// drop removes a slot and releases its lock. It waits for a running pass until timeout. This
// node does not take the SKU again for the time backoff.
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

// remove removes a slot, so that no further pass of it starts. It reports whether a pass is
// running, and ok is false if the slot was removed before.
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

// release releases the lock of a removed slot, which cancels a pass that still runs. The fence
// rejects database writes that the cancelled pass still sends.
func (p *pool) release(s *slot) {
	if errors.Is(context.Cause(s.lock.Context()), lease.ErrLost) {
		return // there is no lock to release, and Redis may be down
	}
	if err := s.lock.Release(context.Background()); err != nil { // Release has its own timeout
		p.log.Debug("release of the SKU's lock failed: another node can take over the SKU after a lease", "sku", s.sku, "error", err)
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
