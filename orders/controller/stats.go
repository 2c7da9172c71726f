package controller

import (
	"time"

	"flashsale/orders/keeper"
)

// Counters are what this node's keepers and sweeper have done.
func (ks *Controller) Counters() *keeper.Counters { return &ks.count }

// RedisDown reports whether Redis, or a master of it, has refused this node's writes for
// long (see DirectConfig.After).
func (ks *Controller) RedisDown() bool { return len(ks.redis.unwritable()) > 0 }

// GateUntrusted reports whether this node takes the Redis master of sku for down. A master is down
// once it has refused this node's writes for DirectConfig.After, until it has accepted
// them again for the same time.
func (ks *Controller) GateUntrusted(sku string) bool {
	_, m := ks.redis.of(sku)
	return m.down
}

// Sales is how many sales this node knows to be of interest still. Each should
// have a keeper, on one of the nodes, unless it is sold in direct mode.
func (ks *Controller) Sales() int { return len(ks.catalog.All()) }

// Stats are how the SKUs are that this node keeps, as the last resync saw
// them.
type Stats struct {
	Kept    int           // SKUs
	Queued  int64         // orders in their queues
	Longest int64         // in one queue
	Oldest  time.Duration // for how long an order has been waiting

	Drifting int   // SKUs whose gate was not what the database says, when last compared
	Drift    int64 // their units that nobody can account for, or of which there are too many
}

// Stats adds up what the last resync saw.
func (ks *Controller) Stats() (all Stats) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	all.Kept = len(ks.slots)
	for _, p := range ks.slots {
		all.Queued += p.waiting.orders
		all.Longest = max(all.Longest, p.waiting.orders)
		if p.waiting.orders > 0 && !p.waiting.since.IsZero() {
			all.Oldest = max(all.Oldest, time.Since(p.waiting.since))
		}
		if b := p.Balance(); b != nil && b.Off {
			all.Drifting++
			all.Drift += max(b.Drift, -b.Drift)
		}
	}
	return all
}

// committed passes a keeper's transaction on, with what it takes to tell how
// late its orders are.
func (ks *Controller) committed(c *keeper.Commit) {
	c.ClockOffset = ks.clockOffset.Load()
	ks.report(c)
}

// Balances are the last ones of the SKUs that this node keeps. One that was not
// compared yet is the zero Balance.
func (ks *Controller) Balances() map[string]keeper.Balance {
	all := map[string]keeper.Balance{}
	for _, p := range ks.all() {
		var b keeper.Balance
		if last := p.Balance(); last != nil {
			b = *last
		}
		all[p.sku] = b
	}
	return all
}

// LoopFailures count the turns of each of this node's loops that failed, by the
// loop's name. Passes of keepers are counted by Counters.Failed.
func (ks *Controller) LoopFailures() map[string]func() int64 {
	failures := make(map[string]func() int64, len(ks.loops))
	for name, l := range ks.loops {
		failures[name] = l.failures.Load
	}
	return failures
}
