package keeper_test

import (
	"errors"
	"fmt"
	"testing"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

// stateOf returns the contents of both stores for S, except the fence.
func stateOf(t testing.TB, b *bare.Bare) string {
	t.Helper()
	ctx := t.Context()
	gate, err := b.Rdb.HGetAll(ctx, "sale:{S}").Result()
	check.Must(t, err)
	holds, _ := b.Rdb.HGetAll(ctx, "sale:{S}:holds").Result()
	buyers, _ := b.Rdb.HGetAll(ctx, "sale:{S}:buyers").Result()
	sale, err := b.Store.Sale(ctx, "S")
	check.Must(t, err)
	rows := map[string]string{}
	for id, o := range b.Rows(t) {
		rows[id] = fmt.Sprint(o.Status, o.RestoredAt)
	}
	return fmt.Sprint(gate, holds, buyers, b.Queue(t), sale.Sold, sale.Epoch, rows)
}

// A keeper is paused between any two steps until another keeper has taken over. When it resumes,
// it changes nothing in the database. The next keeper repairs what it changes at the gate.
func TestPausedKeeperDoesNoHarm(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := busySale(t, s)
		ctx := t.Context()
		stale := b.Keeper(t, "S")
		batch := b.Queue(t)
		ended, err := b.Store.UnreleasedOrders(ctx, "S", 500)
		if err != nil || len(batch) == 0 || len(ended) == 0 {
			t.Fatalf("busy sale: got %d queued and %d ended orders (error %v), want some of both", len(batch), len(ended), err)
		}
		decisions, err := stale.CommitBatch(ctx, batch)
		check.Must(t, err)
		b.Keeper(t, "S") // takes over, but runs no pass yet
		before := stateOf(t, b)
		for step, do := range map[string]func() error{
			"commit": func() error { _, err := b.Store.Commit(ctx, "S", stale.Fence(), batch); return err },
			"mark":   func() error { return b.Store.MarkOrdersReleased(ctx, "S", stale.Fence(), []string{ended[0].ID}) },
			"recount": func() error {
				_, err := b.Store.BeginEpoch(ctx, store.NewSnapshot("S"), &orders.Sale{Epoch: 1}, stale.Fence(), 1)
				return err
			},
			"rebuild": func() error { return stale.RebuildGate(ctx) },
		} {
			check.Is(t, do(), orders.ErrFenced)
			if after := stateOf(t, b); after != before {
				t.Fatalf("state after the paused keeper's step %s: got\n%s\nwant\n%s", step, after, before)
			}
		}
		epoch := ended[0].Epoch
		var closed, paid []string
		for _, e := range ended {
			if e.Status == orders.Paid {
				paid = append(paid, e.ID)
			} else {
				closed = append(closed, e.ID)
			}
		}
		// Each step runs twice: before the first pass of the next keeper and after it.
		late := map[string]func() error{
			"ack":     func() error { return stale.AckBatch(ctx, batch, decisions) },
			"release": func() error { _, err := b.Gate.ReleaseHolds(ctx, "S", epoch, closed); return err },
			"drop":    func() error { return b.Gate.DropHolds(ctx, "S", epoch, paid) },
			"terms":   func() error { old := kit.Sale("S", 15, 3); return b.Gate.SetTerms(ctx, "S", epoch, old.Terms()) },
			"shut":    func() error { return b.Gate.BeginRebuild(ctx, "S", epoch) },
			"install": func() error {
				old := kit.Sale("S", 15, 3)
				d := &inventory.Draft{SKU: "S", Fence: stale.Fence()}
				_, err := b.Gate.Install(ctx, d, epoch, inventory.View{Summary: inventory.Summary{Epoch: epoch + 1, Terms: old.Terms(), Available: 15}})
				return err
			},
		}
		for step, do := range late {
			for range 2 {
				if err := do(); err != nil && !errors.Is(err, inventory.ErrEpoch) {
					t.Errorf("step %s of the paused keeper: got error %v, want none or ErrEpoch", step, err)
				}
				b.Keeper(t, "S").Finish(t)
				if wrong := wrongAfterBusySale(t, b); len(wrong) > 0 {
					t.Fatalf("sale after step %s of the paused keeper: got violations %v, want none", step, wrong)
				}
			}
		}
	})
}
