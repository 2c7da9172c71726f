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

// A latecomer is an order that comes when the queue has been read to its end and not yet
// been emptied: nobody wakes the keeper for it.
type latecomer struct {
	keeper.Gate
	come        func()
	again       chan struct{} // closed when the queue has been read a second time
	reads, asks atomic.Int64
}

func (g *latecomer) Queue(ctx context.Context, sku, after string, limit int64) ([]inventory.Queued, error) {
	batch, err := g.Gate.Queue(ctx, sku, after, limit)
	if g.reads.Add(1) == 2 {
		close(g.again)
	}
	return batch, err
}

func (g *latecomer) Ack(ctx context.Context, sku string, orders []inventory.Queued, release []string) (int64, error) {
	if g.asks.Add(1) == 1 && g.come != nil {
		if len(orders) > keeper.FewOrders { // they are taken off while the queue is read again
			<-g.again
		}
		g.come()
	}
	return g.Gate.Ack(ctx, sku, orders, release)
}

// An order comes into the queue while the orders before it are taken off. The keeper
// carries it over, or has work left. A lone order costs one look at the queue.
func TestDrainSeesLatecomers(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 1000, 9))
		for _, first := range []int{1, 40} { // few orders, and many
			for _, late := range []bool{false, true} {
				k := b.Keeper(t, "S")
				k.Finish(t)
				g := &latecomer{Gate: b.Gate, again: make(chan struct{})}
				if late {
					g.come = func() { b.Reserve(t, fmt.Sprint("late-", first), "", 1) }
				}
				k.Use(b.Store, g)
				k.SetBatch(100)
				for i := range first {
					b.Reserve(t, fmt.Sprintf("buyer-%d-%d-%v", i, first, late), "", 1)
				}
				left, err := k.Pass(t.Context(), keeper.Drain)
				check.Must(t, err)
				queue, err := b.Gate.Queue(t.Context(), "S", "", 10)
				check.Must(t, err)
				if left&keeper.Drain == 0 && len(queue) > 0 {
					t.Errorf("%d orders, late %v: the keeper rests, and %d are in the queue", first, late, len(queue))
				}
				if reads := g.reads.Load(); first == 1 && !late && (reads != 1 || left&keeper.Drain != 0) {
					t.Errorf("a lone order: the queue was read %d times, and work is left: %v", reads, left)
				}
				k.Use(b.Store, b.Gate)
				k.Finish(t)
			}
		}
	})
}
