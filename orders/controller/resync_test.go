package controller

import (
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/orders/keeper"
	"flashsale/orders/store"
)

// Every gate is compared order by order each time, whether or not it changes, and
// not more often than that.
func TestEverySaleIsScanned(t *testing.T) {
	c := &Controller{store: &store.Store{}, cfg: KeeperConfig{ReconcileHoldsEvery: time.Second}.WithDefaults(), signal: make(chan struct{}, 1)}
	walks := func(changing bool) (n int) {
		p := &slot{sku: "S"}
		c.scans = -1000 // this test is not about how many begin at once
		c.slots, c.due = map[string]*slot{"S": p}, nil
		g, now := inventory.Summary{Open: true}, time.Now()
		for range 600 { // a minute
			now = now.Add(100 * time.Millisecond)
			if changing {
				g.Granted++
			}
			c.schedule("S", g, now)
			if p.todo&keeper.Scan != 0 {
				n++
			}
			p.todo = 0
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
