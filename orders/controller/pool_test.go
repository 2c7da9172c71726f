package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
	"flashsale/orders/lock"
	"flashsale/orders/lock/lease"
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

// A SKU that was given up while it stood in line is not served any more: its
// lock may be another's by now. And a worker that stops takes none with it, or
// the hand-over would wait for it for ever.
func TestLineOfSlots(t *testing.T) {
	p := &slot{Keeper: keeper.New(&orders.Sale{SKU: "S"}, keeper.Config{}), sku: "S"}
	c := &Controller{slots: map[string]*slot{"S": p}, signal: make(chan struct{}, 1)}
	c.enqueue(p, keeper.Drain)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	c.work(stopped, stopped)
	if p.running {
		t.Error("taken by a worker that had stopped")
	}
	delete(c.slots, "S")
	if next := c.next(); next != nil {
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
	locks := lock.New(kit.OpenRedis(t, servertest.OpenRedis(t, servers.KindEmbedded).URL), lease.Config{})
	held, err := locks.TryAcquire(t.Context(), "lock:{S}")
	check.Must(t, err)
	c := &Controller{busy: make(chan struct{}, 1)}
	taken := map[keeper.Work]int{}
	for _, todo := range []keeper.Work{keeper.Drain, keeper.Drain | keeper.Release} {
		gate := awayGate{look: func() { taken[todo] = len(c.busy) }}
		p := &slot{Keeper: keeper.New(&orders.Sale{SKU: "S"}, keeper.Config{Gate: gate, Batch: 1}), held: held, doing: todo, stopped: make(chan struct{})}
		c.serve(p, t.Context())
		<-p.stopped
	}
	if taken[keeper.Drain] != 0 || taken[keeper.Drain|keeper.Release] != 1 || len(c.busy) != 0 {
		t.Errorf("places taken: %v, and %d afterwards", taken, len(c.busy))
	}
}
