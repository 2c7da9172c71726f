package main

import (
	"fmt"
	"testing"
	"time"
)

// Every kind does what it is measured for: else a fast no would win.
func TestLimitersDoWhatIsMeasured(t *testing.T) {
	lab := openLab(t, 50*time.Millisecond)
	for _, k := range limiterKinds {
		for _, c := range limiterCases {
			t.Run(fmt.Sprintf("%s/%s", k.name, c.name), func(t *testing.T) {
				if err := lab.empty(t.Context()); err != nil {
					t.Fatal(err)
				}
				requests, allowed, took, err := runLimiter(t.Context(), lab, k, c, 8, 0)
				bound := float64(c.limit.burst) + float64(c.limit.rate)*took.Seconds()/c.limit.per.Seconds()
				switch {
				case err != nil || requests == 0:
					t.Errorf("%d requests, %v", requests, err)
				case c.limit == far && allowed != requests:
					t.Errorf("%d of %d allowed", allowed, requests)
				case c.limit != far && (allowed < min(int64(c.limit.burst), requests) || float64(allowed) > bound*1.01):
					t.Errorf("%d allowed in %v, at most %.0f may be", allowed, took, bound)
				}
			})
		}
	}
}
