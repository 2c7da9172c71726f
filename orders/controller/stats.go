package controller

import "time"

// Stats describe the SKUs that this node keeps, as of the last resync.
type Stats struct {
	KeptSKUs     int           // number of SKUs
	QueuedOrders int64         // number of queued orders of all SKUs
	LongestQueue int64         // number of orders in the longest queue
	OldestAge    time.Duration // age of the oldest queued order

	DriftingSKUs int   // number of SKUs whose last comparison found drift
	DriftUnits   int64 // sum of the units that are missing or exist twice
}

func (p *pool) stats() (all Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all.KeptSKUs = len(p.slots)
	for _, s := range p.slots {
		all.QueuedOrders += s.backlog.orders
		all.LongestQueue = max(all.LongestQueue, s.backlog.orders)
		if s.backlog.orders > 0 && !s.backlog.since.IsZero() {
			all.OldestAge = max(all.OldestAge, time.Since(s.backlog.since))
		}
		if b := s.Balance(); b != nil && b.Differs {
			all.DriftingSKUs++
			all.DriftUnits += max(b.Drift, -b.Drift)
		}
	}
	return all
}
