package orders

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

func (g *stuckGate) Shut(ctx context.Context, sku string, m inventory.Mandate) error {
	g.shut.mu.RLock()
	defer g.shut.mu.RUnlock()
	if g.shut.on {
		return errStuck
	}
	return g.Gate.Shut(ctx, sku, m)
}

func (p *shop) queue(t testing.TB, sku, buyer string) {
	t.Helper()
	if _, err := p.Place(t.Context(), Placement{Buyer: buyer, SKU: sku, Quantity: 1, Async: true}); err != nil {
		t.Fatal(err)
	}
}

// What waits is seen to wait, for as long as it does, and what has drifted to
// have drifted; also when the database is what is away.
func TestStats(t *testing.T) {
	gate := &stuckGate{}
	commits := make(chan *Commit, 1000)
	p := open(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) {
		gate.Gate, c.Gate = c.Gate, gate
		c.Keeper = KeeperConfig{Lease: 20 * time.Second, ReconcileEvery: 100 * time.Millisecond}
		c.Trace = func(context.Context) string { return "trace" }
		c.OnCommit = func(c *Commit) { commits <- c }
	})
	for _, sku := range []string{"S", "T"} {
		p.put(t, sale(sku, 100, 100))
	}
	if s := p.Stats(); s.Kept != 2 || s.Queued+s.Longest+int64(s.Oldest)+int64(s.Drifting)+s.Drift != 0 || p.Sales() != 2 {
		t.Fatalf("%d sales, %+v", p.Sales(), s)
	}

	gate.queue.turn(true)
	p.queue(t, "T", "ann")
	for i := range 2 {
		p.queue(t, "S", fmt.Sprint("buyer-", i))
	}
	eventually(t, "three orders wait", func() bool {
		s := p.Stats()
		return s.Queued == 3 && s.Longest == 2 && s.Oldest > 0
	})
	age := p.Stats().Oldest
	eventually(t, "the oldest grows older", func() bool { return p.Stats().Oldest > age })
	gate.queue.turn(false)
	eventually(t, "none waits", func() bool { return p.Stats() == Stats{Kept: 2} })
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
	if err := p.rdb.HIncrBy(t.Context(), "sale:{S}", "available", 7).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the drift", func() bool { return p.Stats() == Stats{Kept: 2, Drifting: 1, Drift: 7} })
	gate.shut.turn(false)
	eventually(t, "it is repaired", func() bool { return p.Stats() == Stats{Kept: 2} })

	_ = p.store.Close()
	p.queue(t, "S", "ann")
	eventually(t, "an order waits for a database that is away", func() bool { return p.Stats().Queued == 1 })
}

func TestLag(t *testing.T) {
	ahead, began := 7*time.Minute, time.Now()
	c := Commit{Began: began, Took: time.Second}
	if _, known := c.Lag(inventory.Queued{At: began}); known {
		t.Error("the lag is known, and Redis's clock is not")
	}
	c.ahead = &ahead
	for before, want := range map[time.Duration]time.Duration{2 * time.Second: 3 * time.Second, -time.Millisecond: time.Second} {
		if lag, known := c.Lag(inventory.Queued{At: began.Add(ahead - before)}); !known || lag != want {
			t.Errorf("reserved %v before the transaction began: lag %v, %v, want %v", before, lag, known, want)
		}
	}
}

// A payment that takes its units anew is followed as an order is.
func TestPaymentIsTraced(t *testing.T) {
	commits := make(chan *Commit, 10)
	p := open(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) {
		c.Trace = func(context.Context) string { return "trace" }
		c.OnCommit = func(c *Commit) { commits <- c }
	})
	unheld := sale("S", 10, 10)
	unheld.ReserveOn = OnPayment
	p.put(t, unheld)
	placed, err := p.Place(t.Context(), Placement{Buyer: "ann", SKU: "S", Quantity: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Pay(t.Context(), "ann", placed.Order.ID, "ref"); err != nil {
		t.Fatal(err)
	}
	if c := <-commits; len(c.Orders) != 1 || c.Orders[0].Trace != "trace" {
		t.Errorf("%+v", c.Orders)
	}
}
