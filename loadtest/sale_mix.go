package loadtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// saleMix spreads the requests of the attack over its sales, by their weights.
type saleMix struct {
	plans []*targets // by number of the sale
	upTo  []float64  // the sum of the weights up to each

	mu  sync.Mutex
	rng *rand.Rand
}

func newSaleMix(c Config, plans []*targets) *saleMix {
	m := &saleMix{plans: plans, rng: rand.New(rand.NewPCG(uint64(c.Seed), streamSales))}
	sum := 0.0
	for _, s := range c.sales() {
		sum += s.Weight
		m.upTo = append(m.upTo, sum)
	}
	return m
}

// target is vegeta's Targeter.
func (m *saleMix) target(out *vegeta.Target) error { return m.draw().target(out) }

func (m *saleMix) draw() *targets {
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
func (m *saleMix) numbered(url string) (a attempt, sale, n int, err error) {
	_, fragment, _ := strings.Cut(url, "#")
	if _, err := fmt.Sscanf(fragment, "%d/%d", &sale, &n); err == nil && sale >= 0 && sale < len(m.plans) {
		if a, ok := m.plans[sale].numbered(n); ok {
			return a, sale, n, nil
		}
	}
	return attempt{}, 0, 0, fmt.Errorf("loadtest: a result for %q, which was never planned", url)
}
