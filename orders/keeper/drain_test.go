package keeper_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
)

// A lateOrderGate lets an order arrive after the keeper has read the queue to its end and before
// the keeper empties the queue. The gate does not wake the keeper for an order that arrives then.
type lateOrderGate struct {
	keeper.Gate
	arrive      func()        // nil if no order arrives
	secondRead  chan struct{} // closed after the second read of the queue
	reads, acks atomic.Int64
}

func (g *lateOrderGate) ReadQueue(ctx context.Context, sku, after string, limit int64) ([]inventory.QueuedOrder, error) {
	batch, err := g.Gate.ReadQueue(ctx, sku, after, limit)
	if g.reads.Add(1) == 2 {
		close(g.secondRead)
	}
	return batch, err
}

func (g *lateOrderGate) Ack(ctx context.Context, sku string, orders []inventory.QueuedOrder, release []string) (int64, error) {
	if g.acks.Add(1) == 1 && g.arrive != nil {
		if len(orders) > keeper.FewOrders { // after a large batch, the keeper reads the queue during the removal
			<-g.secondRead
		}
		g.arrive()
	}
	return g.Gate.Ack(ctx, sku, orders, release)
}

// If an order arrives while the keeper removes the previous orders from the queue, the pass
// commits it or reports that work is left. A single order costs one read of the queue.
func TestDrainFindsLateOrder(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 1000, 9))
		for _, first := range []int{1, 40} {
			for _, late := range []bool{false, true} {
				k := b.Keeper(t, "S")
				k.Finish(t)
				g := &lateOrderGate{Gate: b.Gate, secondRead: make(chan struct{})}
				if late {
					g.arrive = func() { b.Reserve(t, fmt.Sprint("late-", first), "", 1) }
				}
				k.Use(b.Store, g)
				k.SetBatch(100)
				for i := range first {
					b.Reserve(t, fmt.Sprintf("buyer-%d-%d-%v", i, first, late), "", 1)
				}
				left, err := k.Pass(t.Context(), keeper.DrainQueue)
				check.Must(t, err)
				queue, err := b.Gate.ReadQueue(t.Context(), "S", "", 10)
				check.Must(t, err)
				if left&keeper.DrainQueue == 0 && len(queue) > 0 {
					t.Errorf("pass over %d orders, late order %v: got no Drain although %d orders are still queued, want Drain", first, late, len(queue))
				}
				if reads := g.reads.Load(); first == 1 && !late && (reads != 1 || left&keeper.DrainQueue != 0) {
					t.Errorf("pass over one order: got %d reads of the queue and remaining work %v, want 1 read and no work", reads, left)
				}
				k.Use(b.Store, b.Gate)
				k.Finish(t)
			}
		}
	})
}
