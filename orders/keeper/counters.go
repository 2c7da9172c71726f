package keeper

import "sync/atomic"

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
