package controller

import (
	"math/rand/v2"
	"time"

	"flashsale/inventory"
	"flashsale/orders/keeper"
)

// A schedule holds the times at which a slot compares its gate with the database.
type schedule struct {
	seen  inventory.Summary // state of the gate when a comparison of its sums was last due
	later keeper.Work       // comparisons that the last pass has left
	sums  time.Time         // earliest time of the next comparison of sums
	scan  time.Time         // time of the next scan; zero if not set yet
}

// maxScans is the number of SKUs that may start a scan in one resync. A node may start one
// more for each hundred SKUs that it keeps.
const maxScans = 4

// comparisons returns the comparisons that are due at now for the gate g. The sums are compared
// only if g has changed, because every change of units changes g. Between scans, an idle sale
// therefore costs only its summary. A scan starts only if scans is positive, and decrements it.
func (s *schedule) comparisons(g inventory.Summary, now time.Time, cfg KeeperConfig, scans *int) keeper.Work {
	if !g.Open {
		return 0
	}
	todo := s.later & keeper.ContinueScan
	if s.scan.IsZero() { // spread the first scans of all SKUs
		s.scan = now.Add(rand.N(cfg.ReconcileHoldsEvery))
	}
	if !now.Before(s.scan) && *scans > 0 {
		*scans--
		s.scan = now.Add(cfg.ReconcileHoldsEvery)
		todo |= keeper.StartScan | keeper.CompareSums
	} else if !now.Before(s.sums) && (g != s.seen || s.later&keeper.CompareSums != 0) {
		todo |= keeper.CompareSums
	}
	if todo&keeper.CompareSums != 0 {
		s.seen, s.sums = g, now.Add(cfg.ReconcileEvery)
	}
	return todo
}
