package controller

import "time"

// The watchdog gives up SKUs whose keepers make no progress: no commit, no answered write to
// the gate, and no step of a rebuild. Renewing the lock by a timer is not enough, because a
// keeper that hangs or has lost one of the stores would keep its SKU.
//
// For a keeper that is idle or waits for a worker, the node's own writes count as progress:
// the heartbeat in the database and the probe of the Redis master. Only both together show
// that the next order can become durable.

// stalled removes and returns the slots without progress for one lease. It does not wait for
// their passes, because the fence rejects what a pass that hangs sends to the database later.
func (p *pool) stalled() (stalled []*slot) {
	for sku, s := range p.all() {
		wrote, backoff := p.wrote(sku), time.Duration(0)
		p.mu.Lock()
		silent := time.Since(s.lastProgress(wrote))
		p.mu.Unlock()
		if silent < p.cfg.Lease {
			continue
		}
		if time.Since(wrote) < p.cfg.Lease {
			backoff = p.cfg.Lease // another node may make progress, so it gets the first chance
		}
		if _, ok := p.remove(s, backoff); ok {
			p.counters.Stalled.Add(1)
			p.log.Warn("keeper made no progress: its lock is released, so that another node can take the SKU", "sku", sku, "for", silent)
			stalled = append(stalled, s)
		}
	}
	return stalled
}
