package controller

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/orders/lock/lease"
)

// A keeper lives by its progress: a commit, a write to the gate that was
// answered, a stated step of a rebuild. A lock that a timer renews would keep
// one alive that hangs, or that has lost one of the two stores.
//
// A SKU with nothing to do, or in line for a worker, lives by the node's own
// writes: the heartbeat in the database and the probe of the master that has
// its gate. Only both together show that its next order would become durable.

// errNoProgress is why a pass was cut off.
var errNoProgress = errors.New("orders: the keeper made no progress for a lease")

// watchdog lets go of the SKUs that make no progress. It waits for nobody: neither
// for a pass that hangs, since the fence refuses what it may still send to the
// database, nor for the locks' store. So it has no error.
func (ks *Controller) watchdog(context.Context) error {
	var stuck []*slot
	for _, p := range ks.all() {
		wrote, avoid := ks.wrote(p.sku), time.Duration(0)
		ks.mu.Lock()
		silent := time.Since(p.alive(wrote))
		ks.mu.Unlock()
		if silent < ks.cfg.Lease {
			continue
		}
		if time.Since(wrote) < ks.cfg.Lease {
			avoid = ks.cfg.Lease // another node may do better, and is to have the first try
		}
		if _, ok := ks.takeOut(p, avoid); ok {
			ks.count.Stalled.Add(1)
			ks.log.Warn("keeper made no progress: its lock is released", "sku", p.sku, "for", silent)
			stuck = append(stuck, p)
		}
	}
	if len(stuck) > 0 {
		ks.letting.Go(func() {
			ks.each(stuck, func(p *slot) {
				ks.vacate(p)
				ks.letGo(p)
			})
		})
	}
	return nil
}

// vacate removes this node's name as the latest keeper of the SKU, so that the other nodes
// do not leave the SKU to this node (see yields).
func (ks *Controller) vacate(p *slot) {
	ctx, cancel := context.WithTimeout(context.Background(), ks.cfg.Lease/5)
	defer cancel()
	if err := ks.store.Vacate(ctx, p.sku, p.Fence()); err != nil {
		ks.log.Debug("keeper's name not removed", "sku", p.sku, "error", err)
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

// wrote is when this node last wrote to both stores of sku, zero for never.
func (ks *Controller) wrote(sku string) time.Time {
	_, m := ks.redis.of(sku)
	beaten := ks.beaten.Load()
	switch {
	case beaten == nil:
		return time.Time{}
	case m.wrote.Before(*beaten):
		return m.wrote
	}
	return *beaten
}

// giveUp lets go of a slot. A pass that is under way may end first, for as long
// as timeout says. For as long as avoid says, this node does not try to get the
// SKU back.
func (ks *Controller) giveUp(p *slot, timeout, avoid time.Duration) {
	running, ok := ks.takeOut(p, avoid)
	if !ok {
		return
	}
	if running {
		select {
		case <-p.stopped:
		case <-time.After(timeout):
		}
	}
	ks.letGo(p)
}

// takeOut has no further pass of p begin. False: somebody else has done so.
func (ks *Controller) takeOut(p *slot, avoid time.Duration) (running, ok bool) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if ks.slots[p.sku] != p {
		return false, false
	}
	if p.retry != nil {
		p.retry.Stop()
	}
	delete(ks.slots, p.sku)
	if avoid > 0 {
		ks.backoffUntil[p.sku] = time.Now().Add(avoid)
	}
	return p.running, true
}

// letGo cuts off p's pass, if there is one, and releases the lock: after the
// last commit, unless the pass hangs. What comes later the fence refuses.
func (ks *Controller) letGo(p *slot) {
	ks.mu.Lock()
	cancel := p.cancel
	ks.mu.Unlock()
	if cancel != nil {
		cancel(errNoProgress)
	}
	if errors.Is(context.Cause(p.held.Context()), lease.ErrLost) {
		return // there is nothing to let go of, and often nobody to tell
	}
	if err := p.held.Release(context.Background()); err != nil { // within a time of its own
		ks.log.Debug("lock not released", "sku", p.sku, "error", err)
	}
}

// giveUpAll lets go of several slots.
func (ks *Controller) giveUpAll(slots []*slot, timeout time.Duration) {
	if len(slots) == 0 {
		return
	}
	ks.each(slots, func(p *slot) { ks.giveUp(p, timeout, 0) })
}

// each does one thing with several slots, a few at a time, and then has the
// nodes look for SKUs that nobody keeps.
func (ks *Controller) each(slots []*slot, do func(*slot)) {
	var g errgroup.Group
	g.SetLimit(ks.cfg.Workers)
	for _, p := range slots {
		g.Go(func() error { do(p); return nil })
	}
	_ = g.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	ks.hint(ctx, "")
}
