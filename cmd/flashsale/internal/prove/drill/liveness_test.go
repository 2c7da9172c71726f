package drill

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// A sale with units left must sell, but only while a node is healthy.
func TestLiveness(t *testing.T) {
	const soon, late = sellsWithin - 200*time.Millisecond, directWithin + mendsWithin
	for name, c := range map[string]struct {
		fault   func(c *brokenState)
		rows    int64 // new orders per second
		left    int64
		refused bool // buyers are refused
		after   time.Duration
		still   bool
	}{
		"sells":                      {rows: 1, left: 5, after: late},
		"sold out, refuses":          {refused: true, after: late},
		"sold out, refuses no buyer": {after: late, still: true},
		"has units, refuses":         {refused: true, left: 5, after: late, still: true},
		"stands still":               {left: 5, after: late, still: true},
		"stands still briefly":       {left: 5, after: soon},
		"one node without MySQL":     {fault: func(c *brokenState) { c.noMySQL[0]++ }, left: 5, after: late, still: true},
		"each node lacks something":  {fault: func(c *brokenState) { c.noMySQL[0]++; c.down[1]++; c.noRedis[2]++ }, left: 5, after: late},
		"no Redis":                   {fault: func(c *brokenState) { c.redis++ }, left: 5, after: late, still: true},
		"no Redis, briefly":          {fault: func(c *brokenState) { c.redis++ }, left: 5, after: directWithin - time.Second},
		"Redis only without MySQL":   {fault: func(c *brokenState) { c.noMySQL[0]++; c.noRedis[1]++; c.noRedis[2]++ }, left: 5, after: late},
		"no active buyers":           {fault: func(c *brokenState) { c.buyersStopped = true }, left: 5, after: late},
		"no MySQL":                   {fault: func(c *brokenState) { c.mysql++ }, left: 5, after: late},
	} {
		t.Run(name, func(t *testing.T) {
			var state brokenState
			l := &liveness{sku: "S", rows: 1}
			state.change(faulted, c.fault)
			broken := ""
			for state.now < c.after {
				state.pass(2 * watchEvery)
				if c.refused {
					l.refuses(&state)
				}
				broken += l.observe(&state, 1+c.rows*int64(state.now/time.Second), c.left)
			}
			if still := strings.HasPrefix(broken, "stands still: S"); still != c.still || !still && broken != "" {
				t.Errorf("liveness: got %q, want a sale that stands still: %v", broken, c.still)
			}
		})
	}
}

// The time after a fault counts as watched only from the moment at which sales must sell
// again.
func TestWatched(t *testing.T) {
	a := &round{}
	for i := range a.liveness {
		a.liveness[i] = &liveness{}
	}
	for a.state.change(faulted, nil); a.state.now < 2*sellsWithin; {
		a.state.pass(watchEvery)
		for _, l := range a.liveness {
			l.observe(&a.state, int64(a.state.now), 1)
		}
		if got := a.watched(); a.state.now < sellsWithin && got != 0 {
			t.Fatalf("time watched after a fault: got %v of %v, want 0 before the sale can sell again", got, a.state.now)
		}
	}
	if got := a.watched(); got < 0.45 || got > 0.55 {
		t.Errorf("time watched: got the share %v, want about a half", got)
	}
}

// A seed determines the plan, and the first steps of a plan contain every fault.
func TestPlan(t *testing.T) {
	one, two, other := newPlan(7, nil), newPlan(7, nil), newPlan(8, nil)
	met, same := map[string]bool{}, true
	all := names((*fault).inStorm)
	for range all {
		a, b, c := one.next(), two.next(), other.next()
		if !reflect.DeepEqual(stepNames(a), stepNames(b)) {
			t.Fatalf("plans of one seed: got %+v and %+v, want the same plan", stepNames(a), stepNames(b))
		}
		same = same && reflect.DeepEqual(stepNames(a), stepNames(c))
		met[a.fault.name] = true
		if a.with != nil && (a.with.node == a.node || !a.with.fault.joins) {
			t.Errorf("plan: the faults %s and %s hit the same node or the stores, want them apart", a.fault.name, a.with.fault.name)
		}
		if a.last < a.fault.least || a.last > a.fault.most || a.variant >= a.fault.variants {
			t.Errorf("fault %s: got duration %v and variant %d, want both within the fault's bounds", a.fault.name, a.last, a.variant)
		}
	}
	if len(met) != len(all) || same {
		t.Errorf("plans of all seeds: got %d of %d faults; two seeds plan the same: %v, want all faults and false", len(met), len(all), same)
	}
}

// stepNames returns a step without its functions, which cannot be compared.
func stepNames(s step) (all []any) {
	for p := &s; p != nil; p = p.with {
		all = append(all, p.fault.name, p.node, p.sku, p.variant, p.last, p.calm)
	}
	return all
}
