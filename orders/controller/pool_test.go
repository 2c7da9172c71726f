package controller

import (
	"context"
	"fmt"
	"testing"

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

// A SKU that was given up while it stood in line is not served any more: its
// lock may be another's by now. And a worker that stops takes none with it, or
// the hand-over would wait for it for ever.
func TestLineOfSlots(t *testing.T) {
	p := &slot{Keeper: keeper.New(&orders.Sale{SKU: "S"}, keeper.Params{}), sku: "S"}
	ks := &Controller{slots: map[string]*slot{"S": p}, signal: make(chan struct{}, 1)}
	ks.enqueue(p, keeper.Drain)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	ks.work(stopped, stopped)
	if p.running {
		t.Error("taken by a worker that had stopped")
	}
	delete(ks.slots, "S")
	if next := ks.next(); next != nil {
		t.Error("served after it was given up")
	}
}
