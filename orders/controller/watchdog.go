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
func (c *Controller) watchdog(context.Context) error {
	var stuck []*slot
	for _, p := range c.all() {
		wrote, avoid := c.wrote(p.sku), time.Duration(0)
		c.mu.Lock()
		silent := time.Since(p.alive(wrote))
		c.mu.Unlock()
		if silent < c.cfg.Lease {
			continue
		}
		if time.Since(wrote) < c.cfg.Lease {
			avoid = c.cfg.Lease // another node may do better, and is to have the first try
		}
		if _, ok := c.takeOut(p, avoid); ok {
			c.count.Stalled.Add(1)
			c.log.Warn("keeper made no progress: its lock is released", "sku", p.sku, "for", silent)
			stuck = append(stuck, p)
		}
	}
	if len(stuck) > 0 {
		c.letting.Go(func() {
			c.each(stuck, func(p *slot) {
				c.vacate(p)
				c.letGo(p)
			})
		})
	}
	return nil
}
