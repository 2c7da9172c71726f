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

// A stuckGate doesn't let its keeper read the queue, or shut the gate.
type stuckGate struct {
	Gate
	queue, shut switched
}

// A switched thing is on or off for all of a call.
type switched struct {
	mu sync.RWMutex
	on bool
}

// turn returns once no call is under way that found it otherwise.
func (s *switched) turn(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = on
}

var errStuck = errors.New("stuck")

func (g *stuckGate) Queue(ctx context.Context, sku, after string, limit int64) ([]inventory.Queued, error) {
	g.queue.mu.RLock()
	defer g.queue.mu.RUnlock()
	if g.queue.on {
		return nil, errStuck
	}
	return g.Gate.Queue(ctx, sku, after, limit)
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

// What waits is seen to wait, for as long as it does, and what has drifted to
// have drifted; also when the database is what is away.
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
	if s := p.Keepers().Stats(); s.Kept != 2 || s.Queued+s.Longest+int64(s.Oldest)+int64(s.Drifting)+s.Drift != 0 || len(p.catalog.All()) != 2 {
		t.Fatalf("%d sales, %+v", len(p.catalog.All()), s)
	}

	gate.queue.turn(true)
	p.queue(t, "T", "ann")
	for i := range 2 {
		p.queue(t, "S", fmt.Sprint("buyer-", i))
	}
	check.Eventually(t, "three orders wait", func() bool {
		s := p.Keepers().Stats()
		return s.Queued == 3 && s.Longest == 2 && s.Oldest > 0
	})
	age := p.Keepers().Stats().Oldest
	check.Eventually(t, "the oldest grows older", func() bool { return p.Keepers().Stats().Oldest > age })
	gate.queue.turn(false)
	check.Eventually(t, "none waits", func() bool { return p.Keepers().Stats() == controller.Stats{Kept: 2} })
	for carried := 0; carried < 3; {
		c := <-commits
		for _, o := range c.Orders {
			carried++
			if lag, known := c.Lag(o); !known || lag <= 0 || o.Trace != "trace" || c.Err != nil || c.Took <= 0 || c.Fence == 0 {
				t.Errorf("%+v: lag %v, %v", c, lag, known)
			}
		}
	}

	gate.shut.turn(true) // it is found, and can't be repaired
	check.Must(t, p.rdb.HIncrBy(t.Context(), "sale:{S}", "available", 7).Err())
	check.Eventually(t, "the drift", func() bool { return p.Keepers().Stats() == controller.Stats{Kept: 2, Drifting: 1, Drift: 7} })
	gate.shut.turn(false)
	check.Eventually(t, "it is repaired", func() bool { return p.Keepers().Stats() == controller.Stats{Kept: 2} })

	_ = p.store.Close()
	p.queue(t, "S", "ann")
	check.Eventually(t, "an order waits for a database that is away", func() bool { return p.Keepers().Stats().Queued == 1 })
}

// A payment that takes its units anew is followed as an order is.
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
		t.Errorf("%+v", c.Orders)
	}
}
