package keeper

import (
	"sync/atomic"
	"time"

	"flashsale/inventory"
)

// Counters are what a node's keepers have done, for metrics.
type Counters struct {
	Drained   atomic.Int64 // orders carried into the database
	Together  atomic.Int64 // transactions that carried orders of several SKUs
	Released  atomic.Int64 // units released to the gate
	Rebuilt   atomic.Int64 // gates
	Compared  atomic.Int64 // sums of gates with the database's
	Repaired  atomic.Int64 // gates that had drifted
	TakenOver atomic.Int64 // SKUs
	Fenced    atomic.Int64 // keepers that found another one in their place
	Lost      atomic.Int64 // leases that ended early
	Stalled   atomic.Int64 // SKUs let go of for want of progress
	Failed    atomic.Int64 // passes that ended in an error
	Expired   atomic.Int64 // orders closed by this node's sweeper

	DirectEntered atomic.Int64 // sales that this node switched to direct mode
	DirectLeft    atomic.Int64 // sales that are sold through the gate again
	DirectPlaced  atomic.Int64 // orders carried into the database in direct mode
	DirectRefused atomic.Int64 // buyers for whom it had no room
}

// A Commit is what a keeper carried over at once, as Config.OnCommit hears of
// it. Its transaction may be one that other keepers share (groupcommit.go), and Took
// has the wait for that.
type Commit struct {
	SKU    string
	Fence  int64
	Orders []inventory.Queued // that were carried over; not to be changed
	Began  time.Time          // by this process's clock, as all that follows
	Took   time.Duration
	Err    error // not all of it is durable; unless ErrFenced, it may yet be

	ClockOffset *time.Duration // Redis's clock, less this one's
}

// Reserved tells when the gate took the units of one of the orders: to about a
// millisecond, and never after Began. False: it is not known yet how far Redis's
// clock and this one are apart.
func (c *Commit) Reserved(o inventory.Queued) (time.Time, bool) {
	if c.ClockOffset == nil {
		return time.Time{}, false
	}
	at := o.At.Add(-*c.ClockOffset)
	if at.After(c.Began) {
		at = c.Began
	}
	return at, true
}

// Lag is how long after its units were taken an order was durable.
func (c *Commit) Lag(o inventory.Queued) (time.Duration, bool) {
	at, known := c.Reserved(o)
	return c.Began.Add(c.Took).Sub(at), known
}
