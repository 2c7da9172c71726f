package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/keeper"
)

// shouldKeep moves no more than its share when a node comes or goes.
func TestShouldKeepMovesLittle(t *testing.T) {
	two, three := []string{"a", "b"}, []string{"a", "b", "c"}
	count := map[string]int{}
	for i := range 3000 {
		sku := fmt.Sprint("sku-", i)
		before, after := ShouldKeep(two, sku), ShouldKeep(three, sku)
		count[after]++
		if after != before && after != "c" {
			t.Fatalf("%s moved from %s to %s, for c", sku, before, after)
		}
	}
	for _, node := range three {
		if count[node] < 900 || count[node] > 1100 {
			t.Errorf("%s keeps %d of 3000", node, count[node])
		}
	}
	if ShouldKeep(nil, "x") != "" {
		t.Error("nobody alive, and yet a keeper")
	}
}

// testPool is the pool of a node that never writes to a store.
func testPool() *pool {
	return newPool(KeeperConfig{}, slog.New(slog.DiscardHandler), &keeper.Counters{}, func(string) time.Time { return time.Time{} })
}

// A SKU that was given up while it stood in line is not served any more: its
// lock may be another's by now. And a worker that stops takes none with it, or
// the hand-over would wait for it for ever.
func TestLineOfSlots(t *testing.T) {
	s := &slot{Keeper: keeper.New(&orders.Sale{SKU: "S"}, keeper.Config{}), sku: "S", lock: &testLock{ctx: t.Context()}}
	p := testPool()
	p.add(s)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	p.work(stopped, stopped)
	if s.running {
		t.Error("taken by a worker that had stopped")
	}
	p.drop(s, 0, 0)
	if p.start(p.next()) {
		t.Error("served after it was given up")
	}
}

// awayGate fails each pass at its beginning, and looks then.
type awayGate struct {
	keeper.Gate
	look func()
}

func (g awayGate) Queue(context.Context, string, string, int64) ([]inventory.Queued, error) {
	g.look()
	return nil, errors.New("away")
}

// Passes that do more than drain have so many places as there are workers, or they would
// take all connections to the database. Those that drain take no place.
func TestPlacesOfPasses(t *testing.T) {
	p := testPool()
	taken := map[keeper.Work]int{}
	for _, todo := range []keeper.Work{keeper.Drain, keeper.Drain | keeper.Release} {
		gate := awayGate{look: func() { taken[todo] = len(p.places) }}
		s := &slot{Keeper: keeper.New(&orders.Sale{SKU: "S"}, keeper.Config{Gate: gate, Batch: 1}), lock: &testLock{ctx: t.Context()}, doing: todo, stopped: make(chan struct{})}
		p.serve(s, t.Context())
		<-s.stopped
	}
	if taken[keeper.Drain] != 0 || taken[keeper.Drain|keeper.Release] != 1 || len(p.places) != 0 {
		t.Errorf("places taken: %v, and %d afterwards", taken, len(p.places))
	}
}

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
