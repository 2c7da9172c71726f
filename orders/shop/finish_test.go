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

// A watchedGate counts calls of Summaries.
type watchedGate struct {
	Gate
	summaries atomic.Int64
}

func (g *watchedGate) Summaries(ctx context.Context, skus ...string) ([]inventory.Summary, error) {
	g.summaries.Add(1)
	return g.Gate.Summaries(ctx, skus...)
}

// The keeper deletes a sale that is over from Redis, once the sale has no open order and its
// queue is empty. MySQL then answers replays, refusals, payments and the audit. A PUT opens the
// sale again, and the units sold still count.
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
			t.Fatal("Redis: it has forgotten a sale with an open order, want the sale kept")
		}
		kit.MakeOverdue(t, p.store.DB, pending.Order.ID)
		_, err = untilKnown(t, func() (map[string]int64, error) { return p.store.Expire(ctx) })
		check.Must(t, err)
		p.Controller().RequestInspect(ctx, "S")
		check.Eventually(t, "Redis has forgotten the sale", func() bool {
			return len(kept()) == 0 && p.catalog.Cached("S").Mode == orders.ModeOver && len(p.Controller().KeptSKUs()) == 0
		})

		if replay, err := place("paid"); err != nil || !replay.Replayed || replay.Order.Status != orders.Paid {
			t.Errorf("replay: got %+v, error %v, want the paid order", replay, err)
		}
		for _, key := range []string{"new", ""} {
			check.Is(t, check.Err(place(key)), inventory.ErrClosed)
		}
		pays(t, p, "ann", pending.Order.ID, "late", orders.ErrOrderClosed)
		if got := strings.Join(refundsOf(t, p.store), ", "); got != "ann late closed" {
			t.Errorf("refund claims: got %q, want %q", got, "ann late closed")
		}
		if a, err := p.Audit(ctx, "S"); err != nil || !a.Balanced || a.Available != 4 || a.Paid != 1 {
			t.Errorf("audit: got %+v, error %v, want 4 available and 1 paid", a, err)
		}
		if keys := kept(); len(keys) > 0 {
			t.Errorf("keys of an ended sale in Redis: got %q, want none", keys)
		}

		put.ClosesAt = put.ClosesAt.Add(2 * time.Hour)
		p.put(t, put)
		for _, key := range []string{"paid", "new"} {
			check.Eventually(t, "an order with key "+key+" in the reopened sale", func() bool {
				placed, err := place(key)
				if err != nil && !errors.Is(err, inventory.ErrRebuilding) || err == nil && placed.Replayed != (key == "paid") {
					t.Fatalf("order with key %s in the reopened sale: got %+v, error %v, want a new order, or a replay for key paid", key, placed, err)
				}
				return err == nil
			})
		}
		p.settledAt(t, 2, 3)
	})
}

// If a sale has been over for long but its queue is not empty, the keeper commits the queue
// before it deletes the sale from Redis.
func TestQueueOfASaleThatIsOver(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, nil)
		put := kit.Sale("S", 5, 3)
		p.put(t, put)
		p.stop()
		p.queue(t, "S", "ann")
		check.Must(t, p.store.DB.Exec("UPDATE sales SET closes_at = ?", time.Now().UTC().Add(-100*time.Hour)).Error)
		restarted := open(t, s, nil)
		check.Eventually(t, "the order is in the database", func() bool { return len(kit.RowsOf(t, restarted.store.DB)) == 1 })
	})
}
