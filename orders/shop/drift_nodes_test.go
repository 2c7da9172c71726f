package shop

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
)

// often is a node that compares as often as it can.
func often(c *Config) {
	c.Keeper.ReconcileEvery, c.Keeper.ReconcileHoldsEvery = 10*time.Millisecond, 50*time.Millisecond
	c.Wait = 10 * time.Second
}

// With dozens of buyers who order, pay and cancel at once, on several nodes,
// through changed totals and a keeper that moves, nothing is repaired: there is
// nothing to repair.
func TestBusySaleIsNotRepaired(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		a, b := open(t, s, often), open(t, s, often)
		put := kit.Sale("S", 50_000, 1000)
		a.put(t, put)
		// With more of them it is not sure that anything is compared: a pass carries over
		// up to eight batches of their orders, seven in ten of which end at once, but
		// gives back 500 at most; and where more wait for that, the sums tell nothing.
		people := 80
		if servertest.Race {
			people = 60
		}
		c, home := gather(t, "S", people, a, b)
		compared := func() int64 { return a.Keepers().Counters().Compared.Load() + b.Keepers().Counters().Compared.Load() }
		began := time.Now()
		// A pass is long here: each of its transactions waits in line with the cancellations.
		for round := 0; time.Since(began) < 4*time.Second || compared() < 2*3 && time.Since(began) < 2*time.Minute; round++ {
			c.moves(t, "while the stores are compared", 50)
			put.Total += int64(10 - 20*(round%2)) // a restock, and then a cut
			a.put(t, put)
		}
		home()
		c.verdict(t)
		t.Logf("%d comparisons", compared())
		if n := a.Keepers().Counters().Repaired.Load() + b.Keepers().Counters().Repaired.Load(); n != 0 || compared() < 2*3 {
			t.Errorf("%d repairs in %d comparisons", n, compared())
		}
	})
}

// Drift of every kind, again and again, while a crowd orders and cancels: when
// it has gone home, everything that is left is on sale again within the time
// that it takes to see the drift often enough.
func TestDriftUnderLoad(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, often)
		p.put(t, kit.Sale("S", 20_000, 1000))
		c, home := gather(t, "S", 40, p)
		b := &bare.Bare{Store: p.store, Rdb: p.rdb, Gate: p.gate}
		for what, drift := range bare.Drifts {
			c.moves(t, "before "+what, 20)
			if !drift(t, b) {
				t.Logf("nothing to change for %q just then", what)
			}
		}
		c.moves(t, "after all of it", 20)
		home()
		calm := time.Now()
		check.Eventually(t, "both stores say the same", func() bool { return len(b.Wrong(t)) == 0 })
		t.Logf("%d repairs, the last one within %v", p.Keepers().Counters().Repaired.Load(), time.Since(calm))
		if p.Keepers().Counters().Repaired.Load() == 0 {
			t.Error("nothing was repaired")
		}
		c.verdict(t)
		n := p.settled(t, "S").Available
		var sold atomic.Int64
		var fresh sync.WaitGroup
		for i := range min(n, 200) {
			fresh.Go(func() {
				if _, err := p.Place(t.Context(), Placement{Buyer: fmt.Sprint("fresh-", i), SKU: "S", Quantity: 1}); err == nil {
					sold.Add(1)
				}
			})
		}
		fresh.Wait()
		if sold.Load() != min(n, 200) {
			t.Errorf("%d sold of %d that are left", sold.Load(), n)
		}
	})
}

// A Redis that fails over to a replica which has not heard of the last writes
// has lost that units came back. They come back by themselves, within the time
// that the README states, and once.
func TestFailoverLosesARelease(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, nil)
		p.put(t, kit.Sale("S", 10, 3))
		placed, err := p.Place(t.Context(), Placement{Buyer: "ann", SKU: "S", Quantity: 3})
		check.Must(t, err)
		p.settled(t, "S")
		replica := []string{"sale:{S}", "sale:{S}:holds", "sale:{S}:buyers"}
		for _, key := range replica {
			check.Must(t, p.rdb.Copy(t.Context(), key, "replica:"+key, 0, true).Err())
		}
		cancels(t, p, "ann", placed.Order.ID, nil)
		if a := p.settled(t, "S"); a.Available != 10 {
			t.Fatalf("%+v", a)
		}
		if _, err := p.rdb.TxPipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for _, key := range replica {
				pipe.Rename(t.Context(), "replica:"+key, key)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		lost := time.Now()
		if a, err := p.Audit(t.Context(), "S"); err != nil || a.Available != 7 || a.Drift != 3 {
			t.Fatalf("nothing was lost: %+v, %v", a, err)
		}
		a := p.settled(t, "S")
		t.Logf("back after %v", time.Since(lost))
		if a.Available != 10 || a.Sold != 0 {
			t.Errorf("%+v", a)
		}
		check.Eventually(t, "the repair is counted", func() bool { return p.Keepers().Counters().Repaired.Load() == 1 })
		if bought := allBuy(t, p, "S", "k", 10); len(bought) != 10 {
			t.Errorf("%d sold of 10", len(bought))
		}
	})
}
