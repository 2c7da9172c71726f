package orders

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// fightUnderLocks lets 120 buyers order one unit each of 40, on two nodes that
// lock per order, and returns how many were told yes.
func fightUnderLocks(t *testing.T, stores *servers.Stores, change func(*Config)) (yes int64, a Audit) {
	t.Helper()
	perOrder := func(c *Config) {
		c.PerOrder, c.Wait = true, time.Minute
		change(c)
	}
	one, two := open(t, stores, perOrder), open(t, stores, perOrder)
	one.put(t, sale("S", 40, 2))
	var all sync.WaitGroup
	var count atomic.Int64
	for i := range 120 {
		node := []*shop{one, two}[i%2]
		all.Go(func() {
			_, err := node.Place(t.Context(), Placement{Buyer: fmt.Sprint("buyer-", i), SKU: "S", Quantity: 1, Key: "k"})
			switch {
			case err == nil:
				count.Add(1)
			case !errors.Is(err, inventory.ErrSoldOut):
				t.Errorf("buyer %d: %v", i, err)
			}
		})
	}
	all.Wait()
	a, err := two.Audit(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	return count.Load(), a
}

func TestPerOrderSellsEachUnitOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, stores *servers.Stores) {
		yes, a := fightUnderLocks(t, stores, func(*Config) {})
		if yes != 40 || a.Sold != 40 || a.Available != 0 || !a.Balanced {
			t.Errorf("%d buyers were told yes, of 40 units; audit %+v", yes, a)
		}
	})
}

// The broken twin: the lock alone guards nothing when nobody judges under it.
func TestPerOrderWithoutTheJudgeOversells(t *testing.T) {
	servertest.Each(t, func(t *testing.T, stores *servers.Stores) {
		yes, a := fightUnderLocks(t, stores, func(c *Config) { c.Store = c.Store.Unguarded() })
		if yes <= 40 || a.Oversold == 0 {
			t.Errorf("not caught: %d buyers were told yes, of 40 units; audit %+v", yes, a)
		}
	})
}

func TestPerOrderKeepsTheContract(t *testing.T) {
	servertest.Each(t, func(t *testing.T, stores *servers.Stores) {
		p := open(t, stores, func(c *Config) { c.PerOrder = true })
		ctx := t.Context()
		p.put(t, sale("S", 3, 2))
		soon := sale("SOON", 3, 2)
		soon.OpensAt, soon.ClosesAt = soon.OpensAt.Add(2*time.Hour), soon.ClosesAt.Add(2*time.Hour)
		p.put(t, soon)
		over := sale("OVER", 3, 2)
		over.OpensAt, over.ClosesAt = over.OpensAt.Add(-2*time.Hour), over.ClosesAt.Add(-2*time.Hour)
		p.put(t, over)

		place := func(buyer, sku, key string, quantity int64) (Placed, error) {
			return p.Place(ctx, Placement{Buyer: buyer, SKU: sku, Quantity: quantity, Key: key})
		}
		refused := func(want error, buyer, sku, key string, quantity int64) {
			t.Helper()
			if _, err := place(buyer, sku, key, quantity); !errors.Is(err, want) {
				t.Errorf("%s orders %d of %s under key %q: %v, want %v", buyer, quantity, sku, key, err, want)
			}
		}
		first, err := place("ann", "S", "k", 2)
		if err != nil || first.Order.Status != PendingPayment {
			t.Fatalf("first order: %+v, %v", first, err)
		}
		refused(inventory.ErrBuyerLimit, "ann", "S", "", 1)
		refused(inventory.ErrMismatch, "ann", "S", "k", 1)
		refused(inventory.ErrSoldOut, "bob", "S", "", 2)
		refused(inventory.ErrNotOpen, "bob", "SOON", "", 1)
		refused(inventory.ErrClosed, "bob", "OVER", "", 1)
		refused(ErrNotFound, "bob", "NONE", "", 1)
		if _, err := place("bob", "S", "", 1); err != nil {
			t.Fatal(err)
		}
		// Sold out now, and the replay is still answered with the order.
		again, err := place("ann", "S", "k", 2)
		if err != nil || !again.Replayed || again.Order.ID != first.Order.ID {
			t.Errorf("replay: %+v, %v", again, err)
		}
		if rows, _, err := p.OrdersOfSale(ctx, "S", 10, ""); err != nil || len(rows) != 2 {
			t.Errorf("%d rows of 2 orders, %v: a refusal left one", len(rows), err)
		}
		if _, err := p.Cancel(ctx, "ann", first.Order.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := place("eve", "S", "", 2); err != nil {
			t.Errorf("the units of a cancelled order: %v", err)
		}
		if a := p.settled(t, "S"); a.Sold != 3 || a.Available != 0 {
			t.Errorf("audit %+v", a)
		}
	})
}

// A lock that nobody gives back within the wait is a 503, not a sale.
func TestPerOrderGivesUpWaiting(t *testing.T) {
	servertest.EachRedis(t, func(t *testing.T, r *servertest.Redis) {
		stores := &servers.Stores{RedisURL: r.URL, SQL: servertest.OpenSQL(t, servers.KindEmbedded)}
		p := open(t, stores, func(c *Config) { c.PerOrder, c.Wait = true, 50*time.Millisecond })
		p.put(t, sale("S", 3, 2))
		other, err := p.locks.TryAcquire(t.Context(), lockKey("S"))
		if err != nil {
			t.Fatal(err)
		}
		order := Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: "k"}
		if _, err := p.Place(t.Context(), order); !errors.Is(err, ErrUnavailable) {
			t.Errorf("while another holds the lock: %v", err)
		}
		if err := other.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if placed, err := p.Place(t.Context(), order); err != nil || placed.Replayed {
			t.Errorf("after its release: %+v, %v", placed, err)
		}
	})
}
