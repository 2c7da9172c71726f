package orders

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/inventory"
	"flashsale/orders/lock"
)

// Keepers are all SKUs that this node keeps. However many those are, a few
// workers serve them, one lock client renews them, and one patrol looks after
// those that nobody has called for.
type Keepers struct {
	node    string
	store   *Store
	convoy  *convoy
	gate    Gate
	locks   lock.Locker
	catalog *catalog
	link    *link
	tell    func(ctx context.Context, verdicts []verdict)
	vacated func(ctx context.Context) // says that SKUs were let go of
	report  func(*Commit)
	log     *slog.Logger
	cfg     KeeperConfig
	count   Counters
	ahead   atomic.Pointer[time.Duration] // Redis's clock, less this one's: nil until it was asked

	reassign chan struct{} // asks for an early look at who keeps what; of one

	mu     sync.Mutex
	posts  map[string]*post
	due    []*post              // to be run, oldest first
	signal chan struct{}        // due has grown; as many as there are workers
	avoid  map[string]time.Time // until when not to take a SKU: fenced off from it
	moved  map[string]time.Time // when a SKU was given up for another node, while nodes were these
	nodes  []string             // alive, this one among them
}

// KeeperConfig of the keepers. The zero value means the defaults.
type KeeperConfig struct {
	Batch   int           // orders per transaction. Default 500
	Workers int           // SKUs served at the same instant. Default 24
	Lease   time.Duration // a dead node's SKUs are taken over within it. Default 5 s
	// PatrolEvery is how long a hint that got lost goes unnoticed. Default 1 s.
	PatrolEvery time.Duration
	// ReconcileEvery is how often the sums of a gate that is in use are compared
	// with the database's. Default 1 s.
	ReconcileEvery time.Duration
	// ReconcileHoldsEvery is how often the gate is compared with the database
	// order by order; a gate that does not change, ten times seldomer. Default 30 s.
	ReconcileHoldsEvery time.Duration
}

func (c KeeperConfig) withDefaults() KeeperConfig {
	if c.Batch <= 0 || c.Batch > 500 { // the gate's scripts take no more ids at once
		c.Batch = 500
	}
	if c.Workers <= 0 {
		c.Workers = 24
	}
	if c.Lease <= 0 {
		c.Lease = 5 * time.Second
	}
	if c.PatrolEvery <= 0 {
		c.PatrolEvery = time.Second
	}
	if c.ReconcileEvery <= 0 {
		c.ReconcileEvery = time.Second
	}
	if c.ReconcileHoldsEvery <= 0 {
		c.ReconcileHoldsEvery = 30 * time.Second
	}
	c.PatrolEvery = min(c.PatrolEvery, c.ReconcileEvery, c.ReconcileHoldsEvery)
	return c
}

// LockLease is the time to live of a SKU's lock: shorter than the lease by
// the time that the others need to notice that it is free.
func (c KeeperConfig) LockLease() time.Duration {
	c = c.withDefaults()
	return c.Lease - 2*assignEvery(c.Lease)
}

// A post is a keeper and whether it is being served.
type post struct {
	keeper
	queued, running, again bool
	failing                bool          // the last pass ended in an error
	stopped                chan struct{} // closed once it is given up
	waiting                waiting       // the SKU's queue, as the patrol saw it

	rounds // the patrol's
}

func lockKey(sku string) string { return "lock:{" + sku + "}" }

// Run keeps SKUs until ctx ends, and then hands them over at once: passes that
// are under way end first, within one lease.
func (ks *Keepers) Run(ctx context.Context) error {
	late, cancel := outlive(ctx, ks.cfg.Lease)
	defer cancel()
	var g errgroup.Group
	for range ks.cfg.Workers {
		g.Go(func() error { ks.work(ctx, late); return nil })
	}
	g.Go(func() error { ks.assign(ctx); return nil })
	g.Go(func() error { ks.heartbeat(ctx); return nil })
	g.Go(func() error { ks.patrol(ctx); return nil })
	err := g.Wait()
	ks.leave()
	ks.giveUpAll(ks.all())
	return err
}

// wake has sku looked at soon, and tells whether this node keeps it.
func (ks *Keepers) wake(sku string, why func(*keeper)) bool {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	p := ks.posts[sku]
	if p == nil {
		return false
	}
	if why != nil {
		why(&p.keeper)
	}
	ks.enqueue(p)
	return true
}

// enqueue puts a post into the line of those to be run, once. The caller has mu.
func (ks *Keepers) enqueue(p *post) {
	switch {
	case p.running:
		p.again = true
	case !p.queued:
		p.queued = true
		ks.due = append(ks.due, p)
		ks.nudge()
	}
}

func (ks *Keepers) nudge() {
	select {
	case ks.signal <- struct{}{}:
	default: // every worker has been called already
	}
}

// work serves posts until ctx ends, one pass each, in turn: a busy SKU does
// not keep the others waiting for longer than one batch. What is still due
// when ctx ends is another node's to do.
func (ks *Keepers) work(ctx, late context.Context) {
	for ctx.Err() == nil {
		p := ks.next()
		if p == nil {
			select {
			case <-ctx.Done():
			case <-ks.signal:
			}
			continue
		}
		more, err := ks.serve(p, late)
		ks.done(p, more, err)
	}
}

// passTimeout bounds a pass. It is far beyond what one takes: it is for a
// store that neither answers nor fails.
const passTimeout = 30 * time.Second

// serve runs one pass of p: until late at most, and never past the lease.
func (ks *Keepers) serve(p *post, late context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(p.held.Context(), passTimeout)
	defer cancel()
	defer context.AfterFunc(late, cancel)()
	return p.pass(ctx)
}

// next takes the next post to be run. One that was given up while it stood in
// line is not run any more: its lock may be another's by now.
func (ks *Keepers) next() *post {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	for len(ks.due) > 0 {
		p := ks.due[0]
		ks.due[0], ks.due = nil, ks.due[1:]
		if ks.posts[p.sku] != p {
			continue
		}
		p.queued, p.running, p.again = false, true, false
		if len(ks.due) > 0 {
			ks.nudge()
		}
		return p
	}
	return nil
}

// retryAfter a pass that failed: a store is away, most likely.
const retryAfter = 200 * time.Millisecond

// done notes the end of a pass.
func (ks *Keepers) done(p *post, more bool, err error) {
	ks.mu.Lock()
	p.running = false
	kept, failed := ks.posts[p.sku] == p, p.failing
	p.failing = err != nil
	if kept && err == nil && (more || p.again) {
		ks.enqueue(p)
	}
	if !kept {
		close(p.stopped) // somebody is waiting for this pass to end
	}
	ks.mu.Unlock()
	if err == nil && failed {
		ks.log.Info("keeper goes on", "sku", p.sku)
	}
	if err == nil || !kept {
		return
	}
	ks.count.Failed.Add(1)
	if errors.Is(err, ErrFenced) || errors.Is(err, inventory.ErrFenced) {
		ks.count.Fenced.Add(1)
		ks.log.Warn("fenced off", "sku", p.sku, "fence", p.fence, "error", err)
		ks.giveUp(p, time.Second)
		return
	}
	if !failed { // said once, tried until it works
		ks.log.Warn("keeper's pass failed", "sku", p.sku, "error", err)
	}
	time.AfterFunc(retryAfter, func() { ks.wake(p.sku, nil) })
}

// giveUp lets go of a post: no pass of it runs after this returns. For as long
// as avoid says, this node does not try to get it back.
func (ks *Keepers) giveUp(p *post, avoid time.Duration) {
	ks.mu.Lock()
	if ks.posts[p.sku] != p {
		ks.mu.Unlock()
		return
	}
	delete(ks.posts, p.sku)
	if avoid > 0 {
		ks.avoid[p.sku] = time.Now().Add(avoid)
	}
	running := p.running
	ks.mu.Unlock()
	if running {
		<-p.stopped
	}
	if errors.Is(context.Cause(p.held.Context()), lock.ErrLost) {
		return // there is nothing to let go of, and often nobody to tell
	}
	// Only now: the lock is let go of after the last commit, never before.
	if err := p.held.Release(context.Background()); err != nil {
		ks.log.Debug("release lock", "sku", p.sku, "error", err)
	}
}

// giveUpAll lets go of several posts, a few at a time, and then says so.
func (ks *Keepers) giveUpAll(posts []*post) {
	if len(posts) == 0 {
		return
	}
	var g errgroup.Group
	g.SetLimit(ks.cfg.Workers)
	for _, p := range posts {
		g.Go(func() error { ks.giveUp(p, 0); return nil })
	}
	_ = g.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	ks.vacated(ctx)
}

func (ks *Keepers) all() []*post {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	return slices.Collect(maps.Values(ks.posts))
}

// Kept returns the SKUs that this node keeps.
func (ks *Keepers) Kept() []string {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	return slices.Collect(maps.Keys(ks.posts))
}

// outlive returns a context that ends d after ctx.
func outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return late, func() { stop(); cancel() }
}
