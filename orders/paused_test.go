package orders

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// state is all that both stores hold of S, less the fences.
func (b *bare) state(t testing.TB) string {
	t.Helper()
	ctx := t.Context()
	gate, err := b.rdb.HGetAll(ctx, "sale:{S}").Result()
	if err != nil {
		t.Fatal(err)
	}
	delete(gate, "fence")
	holds, _ := b.rdb.HGetAll(ctx, "sale:{S}:holds").Result()
	buyers, _ := b.rdb.HGetAll(ctx, "sale:{S}:buyers").Result()
	sale, err := b.store.Sale(ctx, "S")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for id, o := range b.rows(t) {
		rows[id] = fmt.Sprint(o.Status, o.RestoredAt)
	}
	return fmt.Sprint(gate, holds, buyers, b.queue(t), sale.Sold, sale.Epoch, rows)
}

// A keeper that was paused past its lease, between any two steps, finds every
// one of them refused on both sides once another has taken over.
func TestPausedKeeperChangesNothing(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := busy(t, s)
		stale := b.keeper(t, "S")
		batch := b.queue(t)
		ended, err := b.store.Ended(t.Context(), "S", 500)
		if err != nil || len(batch) == 0 || len(ended) == 0 {
			t.Fatal(batch, ended, err)
		}
		b.keeper(t, "S") // takes over, and has not done anything yet
		before := b.state(t)

		ctx := t.Context()
		mandate := inventory.Mandate{Fence: stale.fence, Epoch: ended[0].Epoch}
		var settled []inventory.Settled
		for _, q := range batch {
			settled = append(settled, inventory.Settled{Entry: q.Entry, OrderID: q.OrderID, GiveBack: true})
		}
		terms := sale("S", 99, 9)
		for step, do := range map[string]func() error{
			"commit":  func() error { _, err := b.store.Commit(ctx, "S", stale.fence, batch); return err },
			"settle":  func() error { return b.gate.Settle(ctx, "S", stale.fence, settled) },
			"release": func() error { _, err := b.gate.Release(ctx, "S", mandate, []string{ended[0].ID}); return err },
			"confirm": func() error { return b.gate.Confirm(ctx, "S", mandate, []string{ended[0].ID}) },
			"mark":    func() error { return b.store.MarkRestored(ctx, "S", stale.fence, []string{ended[0].ID}) },
			"terms":   func() error { return b.gate.SetTerms(ctx, "S", mandate, terms.Terms()) },
			"shut":    func() error { return b.gate.Shut(ctx, "S", mandate) },
			"recount": func() error { _, err := b.store.Recount(ctx, newCensus("S"), stale.fence, 1); return err },
			"install": func() error {
				_, err := b.gate.Install(ctx, &inventory.Draft{SKU: "S", Fence: stale.fence}, 99, inventory.Stock{Terms: terms.Terms()})
				return err
			},
			"claim": func() error { return b.gate.Claim(ctx, "S", stale.fence) },
			"pass":  func() error { return stale.run(ctx) },
		} {
			if err := do(); !errors.Is(err, ErrFenced) && !errors.Is(err, inventory.ErrFenced) {
				t.Errorf("%s: %v", step, err)
			}
			if after := b.state(t); after != before {
				t.Fatalf("%s changed\n%s\nto\n%s", step, before, after)
			}
		}
		// The state shows it when one of them is let through.
		if err := b.gate.Settle(context.Background(), "S", stale.fence+1, settled); err != nil || b.state(t) == before {
			t.Errorf("a settle that landed is not seen (%v)", err)
		}
	})
}
