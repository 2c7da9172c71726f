package shop

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
)

// A node with a thousand open sales sells from all of them. A sale needs no goroutine and
// no Redis connection of its own, before or after its orders.
func TestThousandSales(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		n := 1000
		if s.Kind == servers.KindEmbedded {
			n = 400 // twice the bound on goroutines
		}
		store := bare.OpenStore(t, s.SQL)
		skus := make([]string, n)
		rows := make([]orders.Sale, n)
		now := kit.ClockOf(t, store.DB)
		for i := range rows {
			skus[i] = fmt.Sprintf("S%04d", i)
			rows[i] = kit.Sale(skus[i], 10, 5)
			rows[i].Mode, rows[i].CreatedAt, rows[i].UpdatedAt = "gate", now, now
		}
		check.Must(t, store.DB.CreateInBatches(rows, 50).Error)
		before := runtime.NumGoroutine()
		p := open(t, s, nil)
		check.Eventually(t, "all gates are open", func() bool { return p.Controller().Counters().Rebuilt.Load() >= int64(n) })
		// The workers and the embedded server of up to 32 connections are 130 goroutines.
		few := func() bool { return runtime.NumGoroutine() < before+200 }
		check.Eventually(t, "the process has few goroutines before the first order", few)
		var list sync.WaitGroup
		var next atomic.Int64
		for range 32 {
			list.Go(func() {
				for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
					if o := places(t, p, Placement{Buyer: "ann", SKU: skus[i], Quantity: 1}, nil).Order; o.Status != orders.PendingPayment {
						t.Errorf("order of %s: got %+v, want %s", skus[i], o, orders.PendingPayment)
					}
				}
			})
		}
		list.Wait()
		check.Eventually(t, "the process has few goroutines after all orders", few)
		if stats := p.rdb.PoolStats(); stats.TotalConns >= 64 {
			t.Errorf("node with a thousand sales: got %d Redis connections, want fewer than 64", stats.TotalConns)
		}
	})
}

// hungGate is a Gate whose ReadQueue does not return until free is closed.
type hungGate struct {
	Gate
	free  chan struct{}
	calls atomic.Int64 // calls that wait for an answer
}

func (g *hungGate) ReadQueue(ctx context.Context, sku, after string, limit int64) ([]inventory.QueuedOrder, error) {
	g.calls.Add(1)
	defer g.calls.Add(-1)
	select {
	case <-g.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return g.Gate.ReadQueue(ctx, sku, after, limit)
}

// While three hundred sales have orders to commit, a node works on 64 of them at a time,
// with two goroutines each.
func TestConcurrentPassesAreBounded(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		rdb := servertest.Connect(t, servertest.InTime(t).URL)
		gate := &hungGate{Gate: inventory.KeeperGate{Gate: inventory.New(rdb, inventory.Config{})}, free: make(chan struct{})}
		close(gate.free)
		p := &shop{Service: New(Config{Store: bare.OpenStore(t, servertest.OpenSQL(t, servers.KindEmbedded)), Gate: gate, Redis: rdb, Log: check.Log(t)})}
		skus := manySales(t, p.store, 300)
		p.start(t)
		check.Eventually(t, "all gates are open", func() bool { return p.Controller().Counters().Rebuilt.Load() == 300 })
		synctest.Wait()
		gate.free = make(chan struct{})
		before := runtime.NumGoroutine()
		for _, sku := range skus {
			check.Must(t, check.Err(p.Place(t.Context(), Placement{Buyer: "ann", SKU: sku, Quantity: 1, Async: true})))
		}
		synctest.Wait()
		if passes, more := gate.calls.Load(), runtime.NumGoroutine()-before; passes != 64 || more > 2*64 {
			t.Errorf("passes in progress: got %d with %d goroutines, want 64 with at most %d", passes, more, 2*64)
		}
		close(gate.free)
		check.Eventually(t, "all orders are durable", func() bool { return len(kit.RowsOf(t, p.store.DB)) == 300 })
	})
}

// A node that has sold leaves no goroutine behind when it stops.
func TestStopLeavesNoGoroutine(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		bare.OpenStore(t, s.SQL) // the first connection starts goroutines that all tests share
		here := goleak.IgnoreCurrent()
		t.Run("node", func(t *testing.T) {
			p := open(t, s, nil)
			p.put(t, kit.Sale("S", 10, 3))
			for id, o := range allBuy(t, p, "S", "k", 10) {
				if o.Buyer == "buyer-3" {
					cancels(t, p, o.Buyer, id, nil)
				}
			}
			_, err := p.Place(t.Context(), Placement{Buyer: "eve", SKU: "S", Quantity: 2})
			if !errors.Is(err, inventory.ErrSoldOut) {
				t.Errorf("order of a buyer: got error %v, want sold out", err)
			}
			p.stop()
		}) // closes the connections
		goleak.VerifyNone(t, here)
	})
}
