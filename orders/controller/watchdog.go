package controller

import (
	"context"
	"time"
)

// A keeper lives by its progress: a commit, a write to the gate that was
// answered, a stated step of a rebuild. A lock that a timer renews would keep
// one alive that hangs, or that has lost one of the two stores.
//
// A SKU with nothing to do, or in line for a worker, lives by the node's own
// writes: the heartbeat in the database and the probe of the master that has
// its gate. Only both together show that its next order would become durable.

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
