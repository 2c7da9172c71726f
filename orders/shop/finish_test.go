package shop

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// A watchedGate counts how often it was looked at.
type watchedGate struct {
	Gate
	summaries atomic.Int64
}

func (g *watchedGate) Summaries(ctx context.Context, skus ...string) ([]inventory.Summary, error) {
	g.summaries.Add(1)
	return g.Gate.Summaries(ctx, skus...)
}

// Redis forgets a sale that is over once no order of it is open and its queue is
// empty, and MySQL answers for it: replays, refusals, payments and the audit. A
// PUT opens the sale again, with all that was sold.
func TestRedisForgetsASaleThatIsOver(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		gate := &watchedGate{}
		p := open(t, s, func(c *Config) {
			gate.Gate, c.Gate = c.Gate, gate
			c.SweepEvery, c.Keeper.ResyncEvery = time.Hour, 20*time.Millisecond
		})
		put, ctx := kit.Sale("S", 5, 3), t.Context()
		p.put(t, put)
		place := func(key string) (Placed, error) {
			return p.Place(ctx, Placement{Buyer: "ann", SKU: "S", Quantity: 1, Key: key})
		}
		paid, err := place("paid")
		check.Must(t, err)
		check.Must(t, check.Err(p.Pay(ctx, "ann", paid.Order.ID, "ref")))
		pending, err := place("pending")
		check.Must(t, err)
		kept := func() (keys []string) {
			keys, err := p.rdb.Keys(ctx, "sale:{S}*").Result()
			check.Must(t, err)
			return keys
		}

		put.PaymentWindowS = 1
		put.OpensAt, put.ClosesAt = put.OpensAt.Add(-2*time.Hour), put.ClosesAt.Add(-2*time.Hour)
		p.put(t, put)
		before := gate.summaries.Load()
		check.Eventually(t, "the keeper has inspected the gate several times", func() bool { return gate.summaries.Load() > before+10 })
		if len(kept()) == 0 {
			t.Fatal("Redis has forgotten a sale with an open order")
		}
		kit.Overdue(t, p.store.DB, pending.Order.ID)
		_, err = untilKnown(t, func() (map[string]int64, error) { return p.store.Expire(ctx) })
		check.Must(t, err)
		p.Keepers().RequestInspect(ctx, "S")
		check.Eventually(t, "Redis has forgotten the sale", func() bool {
			return len(kept()) == 0 && p.catalog.Known("S").Mode == orders.ModeOver && len(p.Keepers().Kept()) == 0
		})

		if again, err := place("paid"); err != nil || !again.Replayed || again.Order.Status != orders.Paid {
			t.Errorf("a replay: %+v, %v", again, err)
		}
		for _, key := range []string{"new", ""} {
			check.Is(t, check.Err(place(key)), inventory.ErrClosed)
		}
		pays(t, p, "ann", pending.Order.ID, "late", orders.ErrOrderClosed)
		if got := strings.Join(refundsOf(t, p.store), ", "); got != "ann late closed" {
			t.Errorf("refunds: %s", got)
		}
		if a, err := p.Audit(ctx, "S"); err != nil || !a.Balanced || a.Available != 4 || a.Paid != 1 {
			t.Errorf("%+v, %v", a, err)
		}
		if keys := kept(); len(keys) > 0 {
			t.Errorf("asking brought back %q", keys)
		}

		put.ClosesAt = put.ClosesAt.Add(2 * time.Hour)
		p.put(t, put)
		for _, key := range []string{"paid", "new"} {
			check.Eventually(t, key+" when the sale is on again", func() bool {
				again, err := place(key)
				if err != nil && !errors.Is(err, inventory.ErrRebuilding) || err == nil && again.Replayed != (key == "paid") {
					t.Fatalf("%s: %+v, %v", key, again, err)
				}
				return err == nil
			})
		}
		p.settledAt(t, 2, 3)
	})
}

// What is still queued when a sale has long been over is carried over first.
func TestQueueOfASaleThatIsOver(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, nil)
		put := kit.Sale("S", 5, 3)
		p.put(t, put)
		p.stop()
		p.queue(t, "S", "ann")
		check.Must(t, p.store.DB.Exec("UPDATE sales SET closes_at = ?", time.Now().UTC().Add(-100*time.Hour)).Error)
		again := open(t, s, nil)
		check.Eventually(t, "the order is in the database", func() bool { return len(kit.RowsOf(t, again.store.DB)) == 1 })
	})
}
