package live

import "slices"

const (
	maxFine   = 120 // points of one second
	step      = 5   // seconds of a coarse point
	maxCoarse = 95  // points of step seconds
)

// A series holds the points of the last ten minutes: one point per second for the last two
// minutes, and before that one point per five seconds.
type series[P any] struct {
	coarse []P // oldest first
	fine   []P // oldest first
}

// add adds the point of a second. fold merges the oldest five points into one.
func (s *series[P]) add(p P, fold func(five []P) P) {
	if s.fine = append(s.fine, p); len(s.fine) < maxFine+step {
		return
	}
	s.coarse = append(s.coarse[max(0, len(s.coarse)-maxCoarse+1):], fold(s.fine[:step]))
	s.fine = slices.Clone(s.fine[step:])
}

func (s *series[P]) all() []P { return append(append([]P{}, s.coarse...), s.fine...) }
