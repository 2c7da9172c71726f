package controller

import (
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/orders/keeper"
)

// Every gate is compared order by order each time, whether or not it changes, and
// not more often than that.
func TestEverySaleIsScanned(t *testing.T) {
	cfg := KeeperConfig{ReconcileHoldsEvery: time.Second}.WithDefaults()
	walks := func(changing bool) (n int) {
		s, g, now := schedule{}, inventory.Summary{Open: true}, time.Now()
		for range 600 { // a minute
			now = now.Add(100 * time.Millisecond)
			if changing {
				g.Granted++
			}
			scans := 1
			if s.comparisons(g, now, cfg, &scans)&keeper.Scan != 0 {
				n++
			}
		}
		return n
	}
	if busy := walks(true); busy < 50 || busy > 60 {
		t.Errorf("a busy sale was compared %d times a minute, order by order", busy)
	}
	if rest := walks(false); rest < 50 || rest > 60 {
		t.Errorf("a sale at rest was compared %d times a minute, order by order", rest)
	}
}
