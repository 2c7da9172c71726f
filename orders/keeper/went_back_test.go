package keeper_test

import (
	"strings"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
)

// The database loses committed rows: a replica without them was promoted, or a backup was
// restored. The keeper of that time is fenced off. The gate is rebuilt from the database, and
// queued orders are committed. If a rebuild was lost, the queue belongs to another epoch and
// is dropped.
func TestDatabaseWentBack(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		for to, back := range map[string]string{
			"a takeover":          "UPDATE sales SET sold = sold",
			"a rebuild":           "UPDATE sales SET epoch = epoch - 1",
			"an order":            "DELETE FROM orders WHERE buyer = 'ann'; UPDATE sales SET sold = sold - 2",
			"a cancelled order":   "UPDATE orders SET status = 'pending_payment', closed_at = NULL, restored_at = NULL WHERE buyer = 'bob'; UPDATE sales SET sold = sold + 3",
			"the start of a sale": "DELETE FROM orders; UPDATE sales SET sold = 0, epoch = 0",
		} {
			t.Run("to before "+to, func(t *testing.T) {
				b := bare.Open(t, s, kit.Sale("S", 10, 3))
				defer b.DeleteAll(t) // all cases share the stores
				before := b.Keeper(t, "S")
				before.Finish(t)
				earlier := b.Keeper(t, "S")
				b.Reserve(t, "ann", "k", 2)
				cancelled := b.Reserve(t, "bob", "k", 3)
				earlier.Finish(t)
				check.Must(t, check.Err(b.Store.Cancel(t.Context(), "bob", cancelled)))
				earlier.Work |= keeper.ReleaseHolds
				earlier.Finish(t)
				queued, epoch := b.Reserve(t, "eve", "k", 1), b.Epoch(t)
				for statement := range strings.SplitSeq(back, "; ") {
					kit.Exec(t, b.Store.DB, statement)
				}
				kit.Exec(t, b.Store.DB, "UPDATE sales SET fence = ?", before.Fence())
				want := orders.PendingPayment
				if b.Epoch(t) != epoch {
					want = ""
				}

				next := b.Keeper(t, "S")
				check.Is(t, earlier.Run(t.Context()), orders.ErrFenced)
				if n := len(b.Queue(t)); n != 1 {
					t.Errorf("queue after the pass of the earlier keeper: got %d orders, want 1", n)
				}
				compares(t, next)
				kit.MustBeEmpty(t, b.Inconsistencies(t))
				if o := b.Rows(t)[queued]; o.Status != want {
					t.Errorf("queued order: got status %q, want %q", o.Status, want)
				}
			})
		}
	})
}
