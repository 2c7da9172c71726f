package shop

import (
	"sync/atomic"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
)

// often makes the keepers compare the stores as often as possible.
func often(c *Config) {
	c.Keeper.ReconcileEvery, c.Keeper.ReconcileHoldsEvery = 10*time.Millisecond, 50*time.Millisecond
}

// Dozens of buyers order, pay and cancel at once on two nodes, while the total is raised and
// lowered. Nothing is repaired, because nothing has drifted. The units sold are never reset,
// and the available units change by the difference of the totals.
func TestBusySaleIsNotRepaired(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		a, b := open(t, s, often), open(t, s, often)
		put := kit.Sale("S", 50_000, 1000)
		a.put(t, put)
		c, stop := gather(t, "S", 40, a, b)
		count := func(of func(*keeper.Counters) *atomic.Int64) int64 {
			return of(a.Controller().Counters()).Load() + of(b.Controller().Counters()).Load()
		}
		compared := func() int64 { return count(func(n *keeper.Counters) *atomic.Int64 { return &n.Compared }) }
		for round := 0; compared() < 6; round++ {
			c.waitFor(t, "while the stores are compared", 20)
			put.Total += int64(10 - 20*(round%2)) // a restock, and then a cut
			a.put(t, put)
		}
		stop()
		c.verify(t)
		if a := a.settled(t, "S"); a.Total != put.Total || a.Sold == 0 {
			t.Errorf("audit: got %+v, want a total of %d", a, put.Total)
		}
		if n := count(func(n *keeper.Counters) *atomic.Int64 { return &n.Repaired }); n != 0 {
			t.Errorf("busy sale: got %d repairs in %d comparisons, want none", n, compared())
		}
	})
}

// While a crowd orders and cancels, the stores are changed so that they drift apart, in every
// way. Once the crowd has stopped, the keeper repairs the drift and all unsold units can be
// ordered.
func TestDriftUnderLoad(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, func(c *Config) {
			often(c)
			brief(c) // a buyer whose queue entry is dropped receives no answer
		})
		p.put(t, kit.Sale("S", 20_000, 1000))
		c, stop := gather(t, "S", 40, p)
		b := &bare.Bare{Store: p.store, Rdb: p.rdb, Gate: p.gate}
		for what, drift := range bare.Drifts {
			c.waitFor(t, "before "+what, 20)
			if !drift(t, b) {
				t.Logf("drift %q was not possible at this moment", what)
			}
		}
		c.waitFor(t, "after every kind of drift", 20)
		stop()
		check.Eventually(t, "both stores agree", func() bool { return len(b.Inconsistencies(t)) == 0 })
		if p.Controller().Counters().Repaired.Load() == 0 {
			t.Error("drift: got no repair, want one")
		}
		c.verify(t)
		n := min(p.settled(t, "S").Available, 200)
		if bought := allBuy(t, p, "S", "fresh", int(n)); len(bought) != int(n) {
			t.Errorf("sale after the drift: got %d units sold, want %d", len(bought), n)
		}
	})
}
