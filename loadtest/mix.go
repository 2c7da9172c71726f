package loadtest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// mix spreads the attack's requests over its sales, by their weights.
type mix struct {
	plans []*targets // by number of the sale
	upTo  []float64  // the weights, added up so far

	mu  sync.Mutex
	rng *rand.Rand
}

func newMix(c Config, plans []*targets) *mix {
	m := &mix{plans: plans, rng: rand.New(rand.NewPCG(uint64(c.Seed), streamSales))}
	sum := 0.0
	for _, s := range c.sales() {
		sum += s.Weight
		m.upTo = append(m.upTo, sum)
	}
	return m
}

// target is vegeta's Targeter.
func (m *mix) target(out *vegeta.Target) error { return m.draw().target(out) }

func (m *mix) draw() *targets {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.rng.Float64() * m.upTo[len(m.upTo)-1]
	for i, upTo := range m.upTo {
		if at < upTo {
			return m.plans[i]
		}
	}
	return m.plans[len(m.plans)-1]
}

// numbered returns the attempt behind a result's URL, with the numbers of its
// sale and its own.
func (m *mix) numbered(url string) (a attempt, sale, n int, err error) {
	_, fragment, _ := strings.Cut(url, "#")
	first, second, _ := strings.Cut(fragment, "/")
	sale, fault1 := strconv.Atoi(first)
	n, fault2 := strconv.Atoi(second)
	if fault1 == nil && fault2 == nil && sale >= 0 && sale < len(m.plans) {
		if a, ok := m.plans[sale].numbered(n); ok {
			return a, sale, n, nil
		}
	}
	return attempt{}, 0, 0, fmt.Errorf("loadtest: a result for %q, which was never planned", url)
}

// Streams of the seed, beside those of the sales' own plans: what is drawn
// from one leaves the others as they are.
const (
	streamSales  = 1 << 32
	streamBuyers = 1<<32 + 1
)

// arrivals says who comes next, to whichever sale.
type arrivals struct {
	crowd []buyer

	mu   sync.Mutex
	seen int        // so far
	zipf *rand.Zipf // nil: in turn
}

func newArrivals(c Config, crowd []buyer) *arrivals {
	a := &arrivals{crowd: crowd}
	if c.Zipf > 0 {
		a.zipf = rand.NewZipf(rand.New(rand.NewPCG(uint64(c.Seed), streamBuyers)), c.Zipf, 1, uint64(len(crowd)-1))
	}
	return a
}

func (a *arrivals) next() buyer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.zipf != nil {
		return a.crowd[a.zipf.Uint64()]
	}
	b := a.crowd[a.seen%len(a.crowd)]
	a.seen++
	return b
}
