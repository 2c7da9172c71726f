package keeper

import "sync/atomic"

// Counters count the work of a node's keepers, for metrics.
type Counters struct {
	Drained       atomic.Int64 // orders committed and removed from the queue
	SharedCommits atomic.Int64 // transactions with orders of several SKUs
	Released      atomic.Int64 // units released at the gate
	Rebuilt       atomic.Int64 // gates rebuilt
	Compared      atomic.Int64 // comparisons of a gate's sums with the database's
	Repaired      atomic.Int64 // gates rebuilt because of drift
	TakenOver     atomic.Int64 // SKUs taken over
	Fenced        atomic.Int64 // keepers that another keeper has replaced
	LocksLost     atomic.Int64 // locks lost
	Stalled       atomic.Int64 // SKUs given up for lack of progress
	Failed        atomic.Int64 // passes that ended with an error
	Expired       atomic.Int64 // orders that this node's sweeper has expired

	DirectEntered atomic.Int64 // sales that this node has switched to direct mode
	DirectEnded   atomic.Int64 // sales that this node has switched back to their gates
	DirectPlaced  atomic.Int64 // orders inserted in direct mode
	DirectRefused atomic.Int64 // orders refused because direct mode was full
}
