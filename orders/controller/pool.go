package controller

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"flashsale/orders"
	"flashsale/orders/keeper"
	"flashsale/orders/lock/lease"
)

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

// wake has the keeper of sku do some work soon, and tells whether this node keeps
// it.
func (c *Controller) wake(sku string, todo keeper.Work) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.slots[sku]
	if p == nil {
		return false
	}
	c.enqueue(p, todo)
	return true
}

// enqueue has a pass of p do some work: the next one, where one is under way. The
// caller has mu.
func (c *Controller) enqueue(p *slot, todo keeper.Work) {
	p.todo |= todo
	if !p.running && !p.queued {
		p.queued = true
		c.due = append(c.due, p)
		c.nudge()
	}
}

func (c *Controller) nudge() {
	select {
	case c.signal <- struct{}{}:
	default: // every worker has been called already
	}
}

// work serves slots until ctx ends, one pass each, in turn: a busy SKU does
// not keep the others waiting for longer than one batch. What is still due
// when ctx ends is another node's to do.
func (c *Controller) work(ctx, late context.Context) {
	for ctx.Err() == nil {
		p := c.next()
		if p == nil {
			select {
			case <-ctx.Done():
			case <-c.signal:
			}
			continue
		}
		c.serve(p, late)
	}
}

// draining is how many SKUs more may be served at once: those that only have orders to
// commit wait for a transaction that they share, with no connection of their own.
const draining = 40

// serve runs one pass of p, until late at most, and never past the lease. It
// returns when the pass has to end, whether it does or not: a worker must not
// hang with it.
func (c *Controller) serve(p *slot, late context.Context) {
	ctx, cancel := context.WithCancelCause(p.held.Context())
	defer context.AfterFunc(late, func() { cancel(context.Cause(late)) })()
	c.mu.Lock()
	p.cancel = cancel
	c.mu.Unlock()
	if p.doing != keeper.Drain {
		select {
		case c.busy <- struct{}{}:
			defer func() { <-c.busy }()
		case <-ctx.Done(): // and so will the pass
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel(nil)
		again, err := p.Pass(ctx, p.doing)
		c.done(p, again, err)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// next takes the next post to be run. One that was given up while it stood in
// line is not run any more: its lock may be another's by now.
func (c *Controller) next() *slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.due) > 0 {
		p := c.due[0]
		c.due[0], c.due = nil, c.due[1:]
		if c.slots[p.sku] != p {
			continue
		}
		p.began = p.alive(c.wrote(p.sku))
		p.queued, p.running = false, true
		p.doing, p.todo = p.todo, 0
		p.later &^= p.doing
		if len(c.due) > 0 {
			c.nudge()
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
func (c *Controller) done(p *slot, again keeper.Work, err error) {
	if c.noteEnd(p, again, err) {
		c.giveUp(p, 0, time.Second)
	}
}

// noteEnd tells whether another node's keeper has taken p's place.
func (c *Controller) noteEnd(p *slot, again keeper.Work, err error) (fenced bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.running, p.doing = false, 0
	p.later |= again & keeper.Later
	p.todo |= again &^ keeper.Later
	if c.slots[p.sku] != p {
		close(p.stopped) // somebody is waiting for this pass to end
		return false
	}
	if err == nil {
		if p.failures > 0 {
			c.log.Info("keeper works again", "sku", p.sku)
		}
		p.failures = 0
		if p.todo != 0 {
			c.enqueue(p, 0)
		}
		return false
	}
	p.failures++
	c.count.Failed.Add(1)
	if errors.Is(err, orders.ErrFenced) {
		c.count.Fenced.Add(1)
		c.log.Warn("another keeper has taken over", "sku", p.sku, "fence", p.Fence(), "error", err)
		return true
	}
	if p.failures == 1 { // said once, tried until it works
		c.log.Warn("keeper's pass failed", "sku", p.sku, "error", err)
	}
	pause := min(firstRetry<<min(p.failures-1, 8), lastRetry)
	p.retry = time.AfterFunc(pause/2+rand.N(pause), func() { c.wake(p.sku, keeper.Drain) })
	return false
}

func (c *Controller) all() []*slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.slots))
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

// giveUp lets go of a slot. A pass that is under way may end first, for as long
// as timeout says. For as long as avoid says, this node does not try to get the
// SKU back.
func (c *Controller) giveUp(p *slot, timeout, avoid time.Duration) {
	running, ok := c.takeOut(p, avoid)
	if !ok {
		return
	}
	if running {
		select {
		case <-p.stopped:
		case <-time.After(timeout):
		}
	}
	c.letGo(p)
}

// takeOut has no further pass of p begin. False: somebody else has done so.
func (c *Controller) takeOut(p *slot, avoid time.Duration) (running, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slots[p.sku] != p {
		return false, false
	}
	if p.retry != nil {
		p.retry.Stop()
	}
	delete(c.slots, p.sku)
	if avoid > 0 {
		c.backoffUntil[p.sku] = time.Now().Add(avoid)
	}
	return p.running, true
}

// letGo cuts off p's pass, if there is one, and releases the lock: after the
// last commit, unless the pass hangs. What comes later the fence refuses.
func (c *Controller) letGo(p *slot) {
	c.mu.Lock()
	cancel := p.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel(errNoProgress)
	}
	if errors.Is(context.Cause(p.held.Context()), lease.ErrLost) {
		return // there is nothing to let go of, and often nobody to tell
	}
	if err := p.held.Release(context.Background()); err != nil { // within a time of its own
		c.log.Debug("lock not released", "sku", p.sku, "error", err)
	}
}

// alive is p's last sign of life, where its node last wrote to both stores at
// wrote. The caller has mu.
func (p *slot) alive(wrote time.Time) time.Time {
	at := p.Progressed()
	if p.began.After(at) {
		at = p.began
	}
	if !p.running && p.failures == 0 && wrote.After(at) {
		return wrote
	}
	return at
}

// errNoProgress is why a pass was cut off.
var errNoProgress = errors.New("orders: the keeper made no progress for a lease")
