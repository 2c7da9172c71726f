package controller

import "time"

// A keeper lives by its progress: a commit, a write to the gate that was
// answered, a stated step of a rebuild. A lock that a timer renews would keep
// one alive that hangs, or that has lost one of the two stores.
//
// A SKU with nothing to do, or in line for a worker, lives by the node's own
// writes: the heartbeat in the database and the probe of the master that has
// its gate. Only both together show that its next order would become durable.

// stalled removes and returns the slots that made no progress for a lease. It waits for no
// pass, because the fence refuses what a pass that hangs may still send to the database.
func (p *pool) stalled() (stalled []*slot) {
	for sku, s := range p.all() {
		wrote, backoff := p.wrote(sku), time.Duration(0)
		p.mu.Lock()
		silent := time.Since(s.lastAlive(wrote))
		p.mu.Unlock()
		if silent < p.cfg.Lease {
			continue
		}
		if time.Since(wrote) < p.cfg.Lease {
			backoff = p.cfg.Lease // another node may do better, and is to have the first try
		}
		if _, ok := p.remove(s, backoff); ok {
			p.count.Stalled.Add(1)
			p.log.Warn("keeper made no progress: its lock is released", "sku", sku, "for", silent)
			stalled = append(stalled, s)
		}
	}
	return stalled
}
