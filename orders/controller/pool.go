package controller

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"flashsale/orders"
	"flashsale/orders/keeper"
	"flashsale/orders/lock/lease"
	"flashsale/orders/store"
)

// A Controller has a keeper for each SKU that this node keeps: a keyed work queue,
// one leader for each key, and a resync for what got lost. However many SKUs there
// are, a few workers serve them, and one lock client renews their locks.
type Controller struct {
	node        string
	store       *store.Store
	Commits     *keeper.GroupCommit
	gate        Gate
	locks       lease.Locker
	catalog     *store.Catalog
	redis       *redisHealth
	loops       map[string]*loop
	deliver     func(...Notice)
	rdb         redis.UniversalClient
	probeEvery  time.Duration
	staleEpochs sync.Map // SKU → epoch of the stale gate that was announced last: see Stale
	report      func(*keeper.Commit)
	log         *slog.Logger
	cfg         KeeperConfig
	count       keeper.Counters
	clockOffset atomic.Pointer[time.Duration] // Redis's clock, less this one's: nil until it was asked
	beaten      atomic.Pointer[time.Time]     // when this node last wrote to the database: nil for never

	busy     chan struct{}  // passes that do more than drain a queue
	letting  sync.WaitGroup // those who release locks for the watchdog
	reassign chan struct{}  // asks for an early look at who keeps what; of one

	mu           sync.Mutex
	slots        map[string]*slot
	due          []*slot              // to be run, oldest first
	scans        int                  // begun in this resync
	signal       chan struct{}        // due has grown; as many as there are workers
	backoffUntil map[string]time.Time // until when not to take a SKU: fenced off from it
	handedOverAt map[string]time.Time // when a SKU was given up for another node, while nodes were these
	nodes        []store.Node         // alive, this one among them
}

// A slot is a keeper and what it has to do. The controller's mu guards it, but for
// the keeper, which belongs to the pass under way.
type slot struct {
	*keeper.Keeper
	sku             string
	held            *lease.Lock
	began           time.Time   // a pass, or the slot's last sign of life then, if that was later
	todo            keeper.Work // of the next pass
	doing           keeper.Work // of the pass under way
	queued, running bool
	failures        int                     // passes in a row that ended in an error
	retry           *time.Timer             // after the last of them
	cancel          context.CancelCauseFunc // ends the pass under way
	stopped         chan struct{}           // closed once it is given up and no pass of it runs
	waiting         waiting                 // the SKU's queue, as resync saw it

	schedule
}

// one is the keeper of a sale, of which the lock is held.
func (ks *Controller) one(sale *orders.Sale) *keeper.Keeper {
	return keeper.New(sale, keeper.Config{
		Store: ks.store, Gate: ks.gate, Commits: ks.Commits, Batch: ks.cfg.Batch, Log: ks.log, Count: &ks.count,
		Rounds:   max(1, int64(ks.cfg.ReconcileHoldsEvery/(2*ks.cfg.ResyncEvery))), // a scan takes half the time
		Announce: ks.announce, Tell: ks.tell, OnCommit: ks.committed,
	})
}

func lockKey(sku string) string { return "lock:{" + sku + "}" }

// keep keeps SKUs until ctx ends, and then hands them over at once: passes that
// are under way end first, within one lease, and no pass that hangs is waited
// for.
func (ks *Controller) keep(ctx context.Context) error {
	late, cancel := outlive(ctx, ks.cfg.Lease)
	defer cancel()
	var g errgroup.Group
	for range draining + ks.cfg.Workers {
		g.Go(func() error { ks.work(ctx, late); return nil })
	}
	g.Go(func() error { ks.assign(ctx); return nil })
	g.Go(func() error { return ks.loops["heartbeat"].Every(ctx, min(maxBeatEvery, ks.cfg.Lease/4), ks.beat) })
	g.Go(func() error { return ks.loops["resync"].Every(ctx, ks.cfg.ResyncEvery, ks.resync) })
	g.Go(func() error { return new(loop).Every(ctx, ks.cfg.assignEvery(), ks.watchdog) }) // nothing to log or to count
	err := g.Wait()
	ks.letting.Wait()
	ks.leave()
	ks.giveUpAll(ks.all(), ks.cfg.Lease/10)
	return err
}

// wake has the keeper of sku do some work soon, and tells whether this node keeps
// it.
func (ks *Controller) wake(sku string, todo keeper.Work) bool {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	p := ks.slots[sku]
	if p == nil {
		return false
	}
	ks.enqueue(p, todo)
	return true
}

// enqueue has a pass of p do some work: the next one, where one is under way. The
// caller has mu.
func (ks *Controller) enqueue(p *slot, todo keeper.Work) {
	p.todo |= todo
	if !p.running && !p.queued {
		p.queued = true
		ks.due = append(ks.due, p)
		ks.nudge()
	}
}

func (ks *Controller) nudge() {
	select {
	case ks.signal <- struct{}{}:
	default: // every worker has been called already
	}
}

// work serves slots until ctx ends, one pass each, in turn: a busy SKU does
// not keep the others waiting for longer than one batch. What is still due
// when ctx ends is another node's to do.
func (ks *Controller) work(ctx, late context.Context) {
	for ctx.Err() == nil {
		p := ks.next()
		if p == nil {
			select {
			case <-ctx.Done():
			case <-ks.signal:
			}
			continue
		}
		ks.serve(p, late)
	}
}

// draining is how many SKUs more may be served at once: those that only have orders to
// commit wait for a transaction that they share, with no connection of their own.
const draining = 40

// serve runs one pass of p, until late at most, and never past the lease. It
// returns when the pass has to end, whether it does or not: a worker must not
// hang with it.
func (ks *Controller) serve(p *slot, late context.Context) {
	ctx, cancel := context.WithCancelCause(p.held.Context())
	defer context.AfterFunc(late, func() { cancel(context.Cause(late)) })()
	ks.mu.Lock()
	p.cancel = cancel
	ks.mu.Unlock()
	if p.doing != keeper.Drain {
		select {
		case ks.busy <- struct{}{}:
			defer func() { <-ks.busy }()
		case <-ctx.Done(): // and so will the pass
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel(nil)
		again, err := p.Pass(ctx, p.doing)
		ks.done(p, again, err)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// next takes the next post to be run. One that was given up while it stood in
// line is not run any more: its lock may be another's by now.
func (ks *Controller) next() *slot {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	for len(ks.due) > 0 {
		p := ks.due[0]
		ks.due[0], ks.due = nil, ks.due[1:]
		if ks.slots[p.sku] != p {
			continue
		}
		p.began = p.alive(ks.wrote(p.sku))
		p.queued, p.running = false, true
		p.doing, p.todo = p.todo, 0
		p.later &^= p.doing
		if len(ks.due) > 0 {
			ks.nudge()
		}
		return p
	}
	return nil
}

// A pass that failed is tried again: a store is away, most likely.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 400 * time.Millisecond
)

// done notes the end of a pass, and what it leaves to do.
func (ks *Controller) done(p *slot, again keeper.Work, err error) {
	if ks.noteEnd(p, again, err) {
		ks.giveUp(p, 0, time.Second)
	}
}

// noteEnd tells whether another node's keeper has taken p's place.
func (ks *Controller) noteEnd(p *slot, again keeper.Work, err error) (fenced bool) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	p.running, p.doing = false, 0
	p.later |= again & keeper.Later
	p.todo |= again &^ keeper.Later
	if ks.slots[p.sku] != p {
		close(p.stopped) // somebody is waiting for this pass to end
		return false
	}
	if err == nil {
		if p.failures > 0 {
			ks.log.Info("keeper works again", "sku", p.sku)
		}
		p.failures = 0
		if p.todo != 0 {
			ks.enqueue(p, 0)
		}
		return false
	}
	p.failures++
	ks.count.Failed.Add(1)
	if errors.Is(err, orders.ErrFenced) {
		ks.count.Fenced.Add(1)
		ks.log.Warn("another keeper has taken over", "sku", p.sku, "fence", p.Fence(), "error", err)
		return true
	}
	if p.failures == 1 { // said once, tried until it works
		ks.log.Warn("keeper's pass failed", "sku", p.sku, "error", err)
	}
	pause := min(firstRetry<<min(p.failures-1, 8), lastRetry)
	p.retry = time.AfterFunc(pause/2+rand.N(pause), func() { ks.wake(p.sku, keeper.Drain) })
	return false
}

func (ks *Controller) all() []*slot {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	return slices.Collect(maps.Values(ks.slots))
}

// Kept returns the SKUs that this node keeps.
func (ks *Controller) Kept() []string {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	return slices.Collect(maps.Keys(ks.slots))
}

// outlive returns a context that ends d after ctx.
func outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return late, func() { stop(); cancel() }
}

// waiting is a queue at some time. Its age goes on while nobody can look: a
// queue that can't be read isn't carried over either.
type waiting struct {
	orders int64
	since  time.Time // when its oldest order was reserved, by this process's clock; zero: not known
}
