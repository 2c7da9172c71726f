package loadtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// saleMix distributes the requests of the attack over its sales by weight.
type saleMix struct {
	plans []*targets // index: number of the sale
	upTo  []float64  // cumulative weights

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

// target implements vegeta.Targeter.
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

// numbered returns the attempt that belongs to the URL of a result, with the number of
// its sale and its own number.
func (m *saleMix) numbered(url string) (a attempt, sale, n int, err error) {
	_, fragment, _ := strings.Cut(url, "#")
	if _, err := fmt.Sscanf(fragment, "%d/%d", &sale, &n); err == nil && sale >= 0 && sale < len(m.plans) {
		if a, ok := m.plans[sale].numbered(n); ok {
			return a, sale, n, nil
		}
	}
	return attempt{}, 0, 0, fmt.Errorf("loadtest: result for %q: not a planned attempt", url)
}
