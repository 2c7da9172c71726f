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

// If a node joins, ShouldKeep moves only the SKUs that the new node should keep.
func TestShouldKeepMovesFewSKUs(t *testing.T) {
	two, three := []string{"a", "b"}, []string{"a", "b", "c"}
	count := map[string]int{}
	for i := range 3000 {
		sku := fmt.Sprint("sku-", i)
		before, after := ShouldKeep(two, sku), ShouldKeep(three, sku)
		count[after]++
		if after != before && after != "c" {
			t.Fatalf("SKU %s: got it moved from %s to %s, want %s or c", sku, before, after, before)
		}
	}
	for _, node := range three {
		if count[node] < 900 || count[node] > 1100 {
			t.Errorf("SKUs of a node: got %d of 3000 for %s, want about 1000", count[node], node)
		}
	}
	if got := ShouldKeep(nil, "x"); got != "" {
		t.Errorf("keeper without live nodes: got node %q, want none", got)
	}
}

// testPool returns the pool of a node that never writes to a store.
func testPool() *pool {
	return newPool(KeeperConfig{}, slog.New(slog.DiscardHandler), &keeper.Counters{}, func(string) time.Time { return time.Time{} })
}

// A slot that was dropped while it was due is not served, because another node may have its
// lock. A worker that stops leaves due slots alone: otherwise a handover would wait forever for
// the slot's pass.
func TestDroppedSlotIsNotServed(t *testing.T) {
	s := &slot{Keeper: keeper.New(&orders.Sale{SKU: "S"}, keeper.Config{}), sku: "S", lock: &testLock{ctx: t.Context()}}
	p := testPool()
	p.add(s)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	p.work(stopped, stopped)
	if s.running {
		t.Error("stopped worker: it took the slot, want it to take none")
	}
	p.drop(s, 0, 0)
	if p.start(p.next()) {
		t.Error("dropped slot: got a pass, want none")
	}
}

// A failingGate fails each pass at its first step, and calls a function then.
type failingGate struct {
	keeper.Gate
	onQueue func()
}

func (g failingGate) ReadQueue(context.Context, string, string, int64) ([]inventory.QueuedOrder, error) {
	g.onQueue()
	return nil, errors.New("redis is down")
}

// A pass that does more than drain a queue takes a place. The number of places is bounded,
// because passes with more work could take all connections to the database. A pass that only
// drains a queue takes no place.
func TestDrainingPassTakesNoPlace(t *testing.T) {
	p := testPool()
	taken := map[keeper.Work]int{}
	for _, todo := range []keeper.Work{keeper.DrainQueue, keeper.DrainQueue | keeper.ReleaseHolds} {
		gate := failingGate{onQueue: func() { taken[todo] = len(p.places) }}
		s := &slot{Keeper: keeper.New(&orders.Sale{SKU: "S"}, keeper.Config{Gate: gate, MaxBatch: 1}), lock: &testLock{ctx: t.Context()}, doing: todo, stopped: make(chan struct{})}
		p.serve(s, t.Context())
		<-s.stopped
	}
	if taken[keeper.DrainQueue] != 0 || taken[keeper.DrainQueue|keeper.ReleaseHolds] != 1 || len(p.places) != 0 {
		t.Errorf("places of passes: got %v taken during the passes and %d afterwards, want none for Drain, 1 for the other, 0 afterwards", taken, len(p.places))
	}
}

// Every gate is scanned once in each interval, whether or not it changes.
func TestEverySaleIsScanned(t *testing.T) {
	cfg := KeeperConfig{ReconcileHoldsEvery: time.Second}.WithDefaults()
	scans := func(changing bool) (n int) {
		s, g, now := schedule{}, inventory.Summary{Open: true}, time.Now()
		for range 600 { // a minute
			now = now.Add(100 * time.Millisecond)
			if changing {
				g.GrantedOrders++
			}
			allowed := 1
			if s.comparisons(g, now, cfg, &allowed)&keeper.StartScan != 0 {
				n++
			}
		}
		return n
	}
	if busy := scans(true); busy < 50 || busy > 60 {
		t.Errorf("busy sale: got %d scans in a minute, want 50 to 60", busy)
	}
	if idle := scans(false); idle < 50 || idle > 60 {
		t.Errorf("idle sale: got %d scans in a minute, want 50 to 60", idle)
	}
}
