package orders

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// Anything may drift at any moment between orders, payments, cancellations and
// keepers: once calm, so many comparisons later the two stores say the same,
// nothing was ever oversold and every unit that is left can be sold. Without
// drift nothing is ever repaired.
func TestDriftAnywhere(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := openBare(t, s, sale("S", 1, 1))
		var names []string
		for name := range drifts {
			names = append(names, name)
		}
		rapid.Check(t, func(r *rapid.T) {
			b.empty(t)
			b.gate = inventory.New(b.rdb, inventory.Config{SoldOutFor: time.Nanosecond})
			put := sale("S", rapid.Int64Range(1, 12).Draw(r, "total"), 3)
			if _, err := b.store.PutSale(t.Context(), put); err != nil {
				t.Fatal(err)
			}
			shop := New(Config{Store: b.store, Gate: b.gate, Redis: b.rdb, Log: quiet(t)})
			k := b.keeper(t, "S")
			k.finish(t)
			drifted, oversold := false, func() bool {
				row, err := b.store.Sale(t.Context(), "S")
				if err != nil {
					t.Fatal(err)
				}
				var sold int64
				for _, o := range b.rows(t) {
					if o.Status.Open() {
						sold += o.Quantity
					}
				}
				return sold != row.Sold || sold > row.Total
			}
			for range rapid.IntRange(5, 25).Draw(r, "steps") {
				switch rapid.SampledFrom([]string{"order", "order", "order", "cancel", "pay", "keep", "compare", "drift"}).Draw(r, "do") {
				case "order": // whatever the gate makes of it
					buyer := rapid.SampledFrom([]string{"ann", "bob", "eve", "joe"}).Draw(r, "buyer")
					_, _ = shop.Place(t.Context(), Placement{
						Buyer: buyer, SKU: "S", Quantity: rapid.Int64Range(1, 2).Draw(r, "quantity"), Async: true,
					})
				case "cancel", "pay":
					for id, o := range b.rows(t) {
						if o.Status != PendingPayment {
							continue
						}
						var err error
						if rapid.Bool().Draw(r, "pays") {
							_, err = b.store.Pay(t.Context(), o.Buyer, id, "ref")
						} else {
							_, err = b.store.Cancel(t.Context(), o.Buyer, id)
						}
						if err != nil {
							r.Fatal(err)
						}
						break
					}
					k.ended.Store(true)
				case "keep":
					if _, err := k.pass(t.Context()); err != nil {
						r.Fatal(err)
					}
				case "compare":
					k.due.Store(true)
					k.walk.Store(rapid.Bool().Draw(r, "all"))
					if _, err := k.pass(t.Context()); err != nil {
						r.Fatal(err)
					}
				case "drift":
					if rapid.Bool().Draw(r, "really") {
						drifted = drifts[rapid.SampledFrom(names).Draw(r, "which")](t, b) || drifted
					}
				}
				if oversold() {
					r.Fatal("oversold")
				}
			}
			k.ended.Store(true)
			for range 2 { // what shows only once another drift is repaired takes a second time
				k.compares(t)
			}
			if n := k.count.Repaired.Load(); n > 0 && !drifted {
				r.Fatalf("%d repairs without drift", n)
			}
			if wrong := b.wrong(t); len(wrong) > 0 {
				r.Fatal(wrong)
			}
			if n := b.audit(t).Available; n > 0 {
				for i := range n {
					b.reserve(t, fmt.Sprint("fresh-", i), "", 1)
				}
				k.finish(t)
			}
			if a := b.audit(t); a.Sold != a.Total || !a.Balanced {
				r.Fatalf("not all can be sold: %+v", a)
			}
		})
	})
}

// often is a node that compares as often as it can.
func often(c *Config) {
	c.Keeper.ReconcileEvery, c.Keeper.ReconcileHoldsEvery = 10*time.Millisecond, 50*time.Millisecond
	c.Wait = 10 * time.Second
}

// With hundreds of buyers who order, pay and cancel at once, on several nodes,
// through changed totals and a keeper that moves, nothing is repaired: there is
// nothing to repair.
func TestBusySaleIsNotRepaired(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		a, b := open(t, s, often), open(t, s, often)
		put := sale("S", 50_000, 1000)
		a.put(t, put)
		people := 200
		if servertest.Race {
			people = 60
		}
		c, home := gather(t, "S", people, a, b)
		compared := func() int64 { return a.Counters().Compared.Load() + b.Counters().Compared.Load() }
		began := time.Now()
		// A pass is long here: each of its transactions waits in line with the cancellations.
		for round := 0; time.Since(began) < 4*time.Second || compared() < 2*lasting && time.Since(began) < 30*time.Second; round++ {
			c.moves(t, "while the stores are compared", 50)
			put.Total += int64(10 - 20*(round%2)) // a restock, and then a cut
			a.put(t, put)
		}
		home()
		c.verdict(t)
		t.Logf("%d comparisons", compared())
		if n := a.Counters().Repaired.Load() + b.Counters().Repaired.Load(); n != 0 || compared() < 2*lasting {
			t.Errorf("%d repairs in %d comparisons", n, compared())
		}
	})
}

// Drift of every kind, again and again, while a crowd orders and cancels: when
// it has gone home, everything that is left is on sale again within the time
// that it takes to see the drift often enough.
func TestDriftUnderLoad(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, often)
		p.put(t, sale("S", 20_000, 1000))
		c, home := gather(t, "S", 40, p)
		b := &bare{store: p.store, rdb: p.rdb, gate: p.gate}
		for what, drift := range drifts {
			c.moves(t, "before "+what, 20)
			if !drift(t, b) {
				t.Logf("nothing to change for %q just then", what)
			}
		}
		c.moves(t, "after all of it", 20)
		home()
		calm := time.Now()
		eventually(t, "both stores say the same", func() bool { return len(b.wrong(t)) == 0 })
		t.Logf("%d repairs, the last one within %v", p.Counters().Repaired.Load(), time.Since(calm))
		if p.Counters().Repaired.Load() == 0 {
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
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, nil)
		p.put(t, sale("S", 10, 3))
		placed, err := p.Place(t.Context(), Placement{Buyer: "ann", SKU: "S", Quantity: 3})
		if err != nil {
			t.Fatal(err)
		}
		p.settled(t, "S")
		replica := []string{"sale:{S}", "sale:{S}:holds", "sale:{S}:buyers"}
		for _, key := range replica {
			if err := p.rdb.Copy(t.Context(), key, "replica:"+key, 0, true).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Cancel(t.Context(), "ann", placed.Order.ID); err != nil {
			t.Fatal(err)
		}
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
		if a.Available != 10 || a.Sold != 0 || p.Counters().Repaired.Load() != 1 {
			t.Errorf("%+v, %d repairs", a, p.Counters().Repaired.Load())
		}
		if bought := allBuy(t, p, "S", "k", 10); len(bought) != 10 {
			t.Errorf("%d sold of 10", len(bought))
		}
	})
}
