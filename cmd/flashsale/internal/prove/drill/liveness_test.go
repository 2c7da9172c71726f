package drill

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// A sale that has units must sell where a node is well, and only there.
func TestLiveness(t *testing.T) {
	const soon, late = sellsWithin - 200*time.Millisecond, directWithin + mendsWithin
	for name, c := range map[string]struct {
		fault   func(c *brokenState)
		rows    int64 // more of them at the end
		left    int64
		refused bool // a buyer is refused
		after   time.Duration
		still   bool
	}{
		"sells":                      {rows: 1, left: 5, after: late},
		"has nothing to sell":        {refused: true, after: late},
		"refuses nobody":             {after: late, still: true},
		"refuses, and has units":     {refused: true, left: 5, after: late, still: true},
		"stands still":               {left: 5, after: late, still: true},
		"not for long":               {left: 5, after: soon},
		"one node has lost MySQL":    {fault: func(c *brokenState) { c.noMySQL[0]++ }, left: 5, after: late, still: true},
		"each node has lost one":     {fault: func(c *brokenState) { c.noMySQL[0]++; c.down[1]++; c.noRedis[2]++ }, left: 5, after: late},
		"Redis is away":              {fault: func(c *brokenState) { c.redis++ }, left: 5, after: late, still: true},
		"Redis is away, not long":    {fault: func(c *brokenState) { c.redis++ }, left: 5, after: directWithin - time.Second},
		"a blind node reaches Redis": {fault: func(c *brokenState) { c.noMySQL[0]++; c.noRedis[1]++; c.noRedis[2]++ }, left: 5, after: late},
		"nobody buys any more":       {fault: func(c *brokenState) { c.resting = true }, left: 5, after: late},
		"MySQL is away":              {fault: func(c *brokenState) { c.mysql++ }, left: 5, after: late},
	} {
		t.Run(name, func(t *testing.T) {
			var cond brokenState
			l := &liveness{sku: "S", rows: 1}
			cond.change(faulted, c.fault)
			broken := ""
			for cond.now < c.after {
				cond.pass(2 * watchEvery)
				if c.refused {
					l.refuses(&cond)
				}
				broken += l.look(&cond, 1+c.rows*int64(cond.now/time.Second), c.left)
			}
			if still := strings.HasPrefix(broken, "stands still: S"); still != c.still || !still && broken != "" {
				t.Errorf("%q, want standing still: %v", broken, c.still)
			}
		})
	}
}

// After a fault, time does not count as watched until a sale must sell again.
func TestWatched(t *testing.T) {
	a := &round{}
	for i := range a.liveness {
		a.liveness[i] = &liveness{}
	}
	for a.state.change(faulted, nil); a.state.now < 2*sellsWithin; {
		a.state.pass(watchEvery)
		for _, l := range a.liveness {
			l.look(&a.state, int64(a.state.now), 1)
		}
		if got := a.watched(); a.state.now < sellsWithin && got != 0 {
			t.Fatalf("%v of the time watched, %v after a fault", got, a.state.now)
		}
	}
	if got := a.watched(); got < 0.45 || got > 0.55 {
		t.Errorf("%v of the time watched, want a half", got)
	}
}

// A seed fixes the plan, and the first plans of it have every fault.
func TestPlan(t *testing.T) {
	one, two, other := newPlan(7, nil), newPlan(7, nil), newPlan(8, nil)
	met, same := map[string]bool{}, true
	all := names((*fault).inStorm)
	for range all {
		a, b, c := one.next(), two.next(), other.next()
		if !reflect.DeepEqual(stepNames(a), stepNames(b)) {
			t.Fatalf("the same seed plans %+v and %+v", stepNames(a), stepNames(b))
		}
		same = same && reflect.DeepEqual(stepNames(a), stepNames(c))
		met[a.fault.name] = true
		if a.with != nil && (a.with.node == a.node || !a.with.fault.joins) {
			t.Errorf("%s and %s hit the same node, or the stores", a.fault.name, a.with.fault.name)
		}
		if a.last < a.fault.least || a.last > a.fault.most || a.variant >= a.fault.variants {
			t.Errorf("%s: %v, variant %d", a.fault.name, a.last, a.variant)
		}
	}
	if len(met) != len(all) || same {
		t.Errorf("%d of %d faults; two seeds plan the same: %v", len(met), len(all), same)
	}
}

// stepNames are a step without its functions, which cannot be compared.
func stepNames(s step) (all []any) {
	for p := &s; p != nil; p = p.with {
		all = append(all, p.fault.name, p.node, p.sku, p.variant, p.last, p.calm)
	}
	return all
}
