package controller

import "time"

// Stats describe the SKUs that this node keeps, as of the last resync.
type Stats struct {
	Kept         int           // number of SKUs
	QueuedOrders int64         // number of queued orders of all SKUs
	Longest      int64         // number of orders in the longest queue
	Oldest       time.Duration // age of the oldest queued order

	Drifting int   // number of SKUs whose last comparison found drift
	Drift    int64 // sum of the units that are missing or exist twice
}

func (p *pool) stats() (all Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all.Kept = len(p.slots)
	for _, s := range p.slots {
		all.QueuedOrders += s.backlog.orders
		all.Longest = max(all.Longest, s.backlog.orders)
		if s.backlog.orders > 0 && !s.backlog.since.IsZero() {
			all.Oldest = max(all.Oldest, time.Since(s.backlog.since))
		}
		if b := s.Balance(); b != nil && b.Off {
			all.Drifting++
			all.Drift += max(b.Drift, -b.Drift)
		}
	}
	return all
}
