package drill

import (
	"math/rand/v2"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
)

// A step of the plan is one fault: what, where, how and for how long.
type step struct {
	fault   *fault
	node    int           // index of the node that it hits, where it hits one
	sku     int           // index of the sale, where it hits one
	variant int           // which of the fault's forms
	last    time.Duration // from the harm until it is mended
	with    *step         // a second fault at the same time, or nil
	calm    time.Duration // after it
}

// A fault is one kind of harm.
type fault struct {
	name     string
	variants int           // forms that it takes, 1 or more
	least    time.Duration // that it lasts
	most     time.Duration
	joins    bool // may be a second fault at the same time as any other

	// do does the harm and mends it, also after ctx has ended, which only makes
	// it hurry. An error means that there was no harm, or that it is not mended.
	do func(n *nemesis, p step) error
}

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
	first := p.draw(p.deck[0])
	p.deck = p.deck[1:]
	if len(p.joining) > 0 && p.random.IntN(5) < 4 {
		second := p.draw(p.joining[p.random.IntN(len(p.joining))])
		second.node = (first.node + 1 + p.random.IntN(nodeCount-1)) % nodeCount
		if second.fault != first.fault {
			first.with = &second
		}
	}
	first.calm = lab.Between(p.random, 300*time.Millisecond, 1500*time.Millisecond)
	return first
}

func (p *plan) draw(f *fault) step {
	return step{
		fault: f, node: p.random.IntN(nodeCount), sku: p.random.IntN(skuCount),
		variant: p.random.IntN(f.variants), last: lab.Between(p.random, f.least, f.most),
	}
}
