package controller

import (
	"math/rand/v2"
	"time"

	"flashsale/inventory"
	"flashsale/orders/keeper"
)

// A schedule holds the times at which a slot compares its gate with the database.
type schedule struct {
	seen  inventory.Summary // the gate when a comparison of its sums was last scheduled
	later keeper.Work       // work that a pass has left for later
	sums  time.Time         // earliest time of the next comparison of sums
	scan  time.Time         // time of the next scan, order by order; zero: not set yet
}

// maxScans bounds how many SKUs start an order-by-order comparison in one resync. A node
// may start one more for each hundred SKUs that it keeps.
const maxScans = 4

// comparisons returns the comparisons that are due, where g is the gate. The sums are
// compared only if the gate has changed since the last comparison, because every change of
// units changes the gate. A sale at rest therefore costs no more than its summary, until it
// is compared order by order. A scan begins only if scans is positive, and decrements it.
func (s *schedule) comparisons(g inventory.Summary, now time.Time, cfg KeeperConfig, scans *int) keeper.Work {
	if !g.Open {
		return 0
	}
	todo := s.later & keeper.ScanPage
	if s.scan.IsZero() { // not all at once
		s.scan = now.Add(rand.N(cfg.ReconcileHoldsEvery))
	}
	if !now.Before(s.scan) && *scans > 0 {
		*scans--
		s.scan = now.Add(cfg.ReconcileHoldsEvery)
		todo |= keeper.Scan | keeper.Compare
	} else if !now.Before(s.sums) && (g != s.seen || s.later&keeper.Compare != 0) {
		todo |= keeper.Compare
	}
	if todo&keeper.Compare != 0 {
		s.seen, s.sums = g, now.Add(cfg.ReconcileEvery)
	}
	return todo
}
