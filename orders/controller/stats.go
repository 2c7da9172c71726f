package controller

import "time"

// Stats describe the SKUs that this node keeps, as the last resync found them.
type Stats struct {
	Kept    int           // SKUs
	Queued  int64         // orders in their queues
	Longest int64         // in one queue
	Oldest  time.Duration // for how long an order has been waiting

	Drifting int   // SKUs whose gate was not what the database says, when last compared
	Drift    int64 // their units that nobody can account for, or of which there are too many
}

func (p *pool) stats() (all Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all.Kept = len(p.slots)
	for _, s := range p.slots {
		all.Queued += s.backlog.orders
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
