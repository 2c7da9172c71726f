package drill

import (
	"math/rand/v2"
	"slices"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
)

// A plan deals the faults like cards: none comes again before all have come. So
// a few seeds are enough to have met each of them.
type plan struct {
	random  *rand.Rand
	faults  []*fault // to draw from
	joining []*fault // faults that may join
	deck    []*fault
}

// next draws a step. It draws the same numbers whatever the step before did.
func (p *plan) next() step {
	if len(p.deck) == 0 {
		for _, i := range p.random.Perm(len(p.faults)) {
			p.deck = append(p.deck, p.faults[i])
		}
	}
	first := draw(p.random, p.deck[0])
	p.deck = p.deck[1:]
	if len(p.joining) > 0 && p.random.IntN(5) < 4 {
		second := draw(p.random, p.joining[p.random.IntN(len(p.joining))])
		second.node = (first.node + 1 + p.random.IntN(nodeCount-1)) % nodeCount
		if second.fault != first.fault {
			first.with = &second
		}
	}
	first.calm = lab.Between(p.random, 300*time.Millisecond, 1500*time.Millisecond)
	return first
}

// newPlan draws from the faults with these names; none means all.
func newPlan(seed int64, only []string) *plan {
	p := &plan{random: lab.Numbers(seed, 0x5707)}
	for _, f := range catalogue {
		if f.variants > 0 && (len(only) == 0 || slices.Contains(only, f.name)) {
			p.faults = append(p.faults, f)
			if f.joins {
				p.joining = append(p.joining, f)
			}
		}
	}
	return p
}
