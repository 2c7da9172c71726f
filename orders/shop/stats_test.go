package shop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/controller"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
)

// A stuckGate is a Gate whose ReadQueue and BeginRebuild can be made to fail.
type stuckGate struct {
	Gate
	queue, shut switched
}

// A switched value does not change during a call.
type switched struct {
	mu sync.RWMutex
	on bool
}

// turn sets the value, once the calls with the old value have returned.
func (s *switched) turn(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = on
}

var errStuck = errors.New("stuck")

func (g *stuckGate) ReadQueue(ctx context.Context, sku, after string, limit int64) ([]inventory.QueuedOrder, error) {
	g.queue.mu.RLock()
	defer g.queue.mu.RUnlock()
	if g.queue.on {
		return nil, errStuck
	}
	return g.Gate.ReadQueue(ctx, sku, after, limit)
}

func (g *stuckGate) BeginRebuild(ctx context.Context, sku string, epoch int64) error {
	g.shut.mu.RLock()
	defer g.shut.mu.RUnlock()
	if g.shut.on {
		return errStuck
	}
	return g.Gate.BeginRebuild(ctx, sku, epoch)
}

func (p *shop) queue(t testing.TB, sku, buyer string) {
	t.Helper()
	places(t, p, Placement{Buyer: buyer, SKU: sku, Quantity: 1, Async: true}, nil)
}

// Stats contains the queued orders, the age of the oldest one, and the drift. It is up to date
// even while the database is away.
func TestStats(t *testing.T) {
	t.Parallel()
	gate := &stuckGate{}
	commits := make(chan *keeper.Commit, 1000)
	p := open(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) {
		gate.Gate, c.Gate = c.Gate, gate
		c.Keeper = controller.KeeperConfig{Lease: bare.Patience, ReconcileEvery: 100 * time.Millisecond}
		c.Trace = func(context.Context) string { return "trace" }
		c.OnCommit = func(c *keeper.Commit) { commits <- c }
	})
	for _, sku := range []string{"S", "T"} {
		p.put(t, kit.Sale(sku, 100, 100))
	}
	if s := p.Controller().Stats(); s.KeptSKUs != 2 || s.QueuedOrders+s.LongestQueue+int64(s.OldestAge)+int64(s.DriftingSKUs)+s.DriftUnits != 0 || len(p.catalog.All()) != 2 {
		t.Fatalf("controller's stats: got %d sales and %+v, want 2 sales and an empty queue", len(p.catalog.All()), s)
	}

	gate.queue.turn(true)
	p.queue(t, "T", "ann")
	for i := range 2 {
		p.queue(t, "S", fmt.Sprint("buyer-", i))
	}
	check.Eventually(t, "three orders are queued", func() bool {
		s := p.Controller().Stats()
		return s.QueuedOrders == 3 && s.LongestQueue == 2 && s.OldestAge > 0
	})
	age := p.Controller().Stats().OldestAge
	check.Eventually(t, "the oldest order grows older", func() bool { return p.Controller().Stats().OldestAge > age })
	gate.queue.turn(false)
	check.Eventually(t, "no order is queued", func() bool { return p.Controller().Stats() == controller.Stats{KeptSKUs: 2} })
	for committed := 0; committed < 3; {
		c := <-commits
		for _, o := range c.Orders {
			committed++
			if lag, known := c.Lag(o); !known || lag <= 0 || o.Trace != "trace" || c.Err != nil || c.Took <= 0 || c.Fence == 0 {
				t.Errorf("commit %+v: got lag %v, known %t, want a lag above 0 and the trace", c, lag, known)
			}
		}
	}

	gate.shut.turn(true) // the drift cannot be repaired
	check.Must(t, p.rdb.HIncrBy(t.Context(), "sale:{S}", "available", 7).Err())
	check.Eventually(t, "the drift is found", func() bool {
		return p.Controller().Stats() == controller.Stats{KeptSKUs: 2, DriftingSKUs: 1, DriftUnits: 7}
	})
	gate.shut.turn(false)
	check.Eventually(t, "the drift is repaired", func() bool { return p.Controller().Stats() == controller.Stats{KeptSKUs: 2} })

	_ = p.store.Close()
	p.queue(t, "S", "ann")
	check.Eventually(t, "an order is queued while the database is away", func() bool { return p.Controller().Stats().QueuedOrders == 1 })
}

// A payment that takes units has a trace, like an order.
func TestPaymentIsTraced(t *testing.T) {
	commits := make(chan *keeper.Commit, 10)
	p := open(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) {
		c.Trace = func(context.Context) string { return "trace" }
		c.OnCommit = func(c *keeper.Commit) { commits <- c }
	})
	p.put(t, onPayment("S", 10, 10))
	placed, err := p.Place(t.Context(), Placement{Buyer: "ann", SKU: "S", Quantity: 1})
	check.Must(t, err)
	pays(t, p, "ann", placed.Order.ID, "ref", nil)
	if c := <-commits; len(c.Orders) != 1 || c.Orders[0].Trace != "trace" {
		t.Errorf("traced commit: got the orders %+v, want one payment with a trace", c.Orders)
	}
}
