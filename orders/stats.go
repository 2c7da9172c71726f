package orders

import (
	"context"
	"time"

	"flashsale/inventory"
)

// Counters are what this node's keepers and sweeper have done.
func (s *Service) Counters() *Counters { return &s.keepers.count }

// Kept returns the SKUs that this node keeps.
func (s *Service) Kept() []string { return s.keepers.Kept() }

// RedisAway tells whether this node has not reached Redis for long (see
// DirectConfig.After).
func (s *Service) RedisAway() bool { return s.link.isLost() }

// Sales is how many sales this node knows to be of interest still. Each should
// have a keeper, on one of the nodes, unless it is sold the direct way.
func (s *Service) Sales() int {
	if cur := s.catalog.cur.Load(); cur != nil {
		return len(cur.list)
	}
	return 0
}

// Stats are how the SKUs are that this node keeps, as its patrol has last seen
// them.
type Stats struct {
	Kept    int           // SKUs
	Queued  int64         // orders in their queues
	Longest int64         // in one queue
	Oldest  time.Duration // for how long an order has been waiting

	Drifting int   // SKUs whose gate was not what the database says, when last compared
	Drift    int64 // their units that nobody can account for, or of which there are too many
}

// waiting is a queue at some time. Its age goes on while nobody can look: a
// queue that can't be read isn't carried over either.
type waiting struct {
	orders int64
	since  time.Time // when its oldest order was reserved, by this process's clock; zero: not known
}

// Stats adds up what the patrol has seen.
func (s *Service) Stats() (all Stats) {
	ks := s.keepers
	ks.mu.Lock()
	defer ks.mu.Unlock()
	all.Kept = len(ks.posts)
	for _, p := range ks.posts {
		all.Queued += p.waiting.orders
		all.Longest = max(all.Longest, p.waiting.orders)
		if p.waiting.orders > 0 && !p.waiting.since.IsZero() {
			all.Oldest = max(all.Oldest, time.Since(p.waiting.since))
		}
		if b := p.balance.Load(); b != nil && b.off {
			all.Drifting++
			all.Drift += max(b.Drift, -b.Drift)
		}
	}
	return all
}

// lookAtQueues notes how long the queues are and since when, and how far
// Redis's clock and this one are apart.
func (ks *Keepers) lookAtQueues(ctx context.Context, skus []string, glances []inventory.Glance) error {
	var busy []string
	for i, sku := range skus {
		if glances[i].Queued > 0 {
			busy = append(busy, sku)
		}
	}
	asked := time.Now()
	oldest, now, err := ks.gate.Oldest(ctx, busy...)
	since := make(map[string]time.Time, len(busy))
	if err == nil {
		ahead := now.Sub(asked.Add(time.Since(asked) / 2))
		ks.ahead.Store(&ahead)
		for i, sku := range busy {
			if !oldest[i].IsZero() {
				since[sku] = oldest[i].Add(-ahead)
			}
		}
	}
	ks.mu.Lock()
	defer ks.mu.Unlock()
	for i, sku := range skus {
		if p := ks.posts[sku]; p != nil {
			p.waiting = waiting{orders: glances[i].Queued, since: since[sku]}
		}
	}
	return err
}

// committed passes a keeper's transaction on, with what it takes to tell how
// late its orders are.
func (ks *Keepers) committed(c *Commit) {
	c.ahead = ks.ahead.Load()
	ks.report(c)
}
