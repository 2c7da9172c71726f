package live

import "slices"

// The bounds of a series: two minutes by the second, eight in steps of five.
const (
	maxFine   = 120
	step      = 5
	maxCoarse = 95
)

// A series keeps ten minutes of points: one a second, and before the last two minutes
// one per five seconds.
type series[P any] struct {
	coarse []P // before those of fine
	fine   []P // the oldest first
}

// add adds the point of a second. fold makes one point of the oldest five.
func (s *series[P]) add(p P, fold func(five []P) P) {
	if s.fine = append(s.fine, p); len(s.fine) < maxFine+step {
		return
	}
	s.coarse = append(s.coarse[max(0, len(s.coarse)-maxCoarse+1):], fold(s.fine[:step]))
	s.fine = slices.Clone(s.fine[step:])
}

// all are the points, the oldest first.
func (s *series[P]) all() []P { return append(append([]P{}, s.coarse...), s.fine...) }
