package drill

import (
	"math/rand/v2"
	"slices"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
)

// A plan deals the faults like cards: no fault comes twice before all have come once.
// A few seeds therefore cover all faults.
type plan struct {
	random  *rand.Rand
	faults  []*fault // all faults of the storm
	joining []*fault // faults that may be the second of two
	deck    []*fault // faults that have not come in this turn
}

// next draws a step. It always draws the same numbers for a seed.
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
	first.calm = lab.RandomDuration(p.random, 300*time.Millisecond, 1500*time.Millisecond)
	return first
}

// newPlan returns a plan of the faults named in only, or of all faults if only is empty.
func newPlan(seed int64, only []string) *plan {
	p := &plan{random: lab.NewRand(seed, 0x5707)}
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
