package keeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

// kept puts sales of one unit each, takes them over, and returns a batch of one order for each.
func kept(t *testing.T, st *store.Store, skus ...string) []store.QueuedBatch {
	t.Helper()
	var batches []store.QueuedBatch
	for i, sku := range skus {
		kit.PutSale(t, st, kit.Sale(sku, 1, 1))
		taken, err := st.TakeOver(t.Context(), sku)
		check.Must(t, err)
		id := fmt.Sprintf("%08d-0000-7000-8000-000000000000", i+1)
		batches = append(batches, store.QueuedBatch{SKU: sku, Fence: taken.Fence, Orders: []inventory.QueuedOrder{kit.QueuedOrder(id, "ann", "k", 1)}})
	}
	return batches
}

// outcomes describes the decisions on each batch in a word.
func outcomes(decisions [][]orders.Decision) string {
	var words []string
	for _, batch := range decisions {
		switch {
		case batch == nil:
			words = append(words, "left out")
		case batch[0].Action == orders.Insert:
			words = append(words, "inserted")
		default:
			words = append(words, "known")
		}
	}
	return strings.Join(words, ", ")
}

// A shared transaction decides each SKU's orders by the row of that SKU. It leaves out a keeper
// that was fenced off, and commits the batches of the other keepers.
func TestCommitTogether(t *testing.T) {
	t.Parallel()
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := migrated(t, sql)
		batches := kept(t, store, "A", "B", "C")
		batches[0].Orders = append(batches[0].Orders, kit.QueuedOrder("90000000-0000-7000-8000-000000000000", "bob", "", 1))
		batches[1].Fence-- // as if another keeper had taken over

		first, err := store.CommitTogether(t.Context(), batches)
		if err != nil || outcomes(first) != "inserted, left out, inserted" {
			t.Fatalf("shared transaction: got outcomes %q, error %v, want %q", outcomes(first), err, "inserted, left out, inserted")
		}
		if bob := first[0][1].Order; bob.Status != orders.Rejected || bob.Reason != "sold_out" {
			t.Errorf("second order for one unit: got it %s %s, want rejected sold_out", bob.Status, bob.Reason)
		}
		batches[1].Fence++
		repeated, err := store.CommitTogether(t.Context(), batches)
		if err != nil || outcomes(repeated) != "known, inserted, known" {
			t.Errorf("repeated shared transaction: got outcomes %q, error %v, want %q", outcomes(repeated), err, "known, inserted, known")
		}
		if rows := kit.RowsOf(t, store.DB); len(rows) != 4 {
			t.Errorf("orders after the repetition: got %d rows, want 4", len(rows))
		}
		for _, b := range batches {
			if s, err := store.Sale(t.Context(), b.SKU); err != nil || s.Sold != 1 {
				t.Errorf("sale %s: got %d units sold, error %v, want 1", b.SKU, s.Sold, err)
			}
		}
	})
}

// A shared transaction leaves out a SKU whose row another transaction has locked.
func TestCommitTogetherSkipsLockedRow(t *testing.T) {
	store := migrated(t, servertest.OpenSQL(t, servers.KindReal))
	batches := kept(t, store, "A", "B", "C")
	err := store.DB.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
		if _, err := store.LockSale(tx, "A"); err != nil {
			return err
		}
		decisions, err := store.CommitTogether(t.Context(), batches) // would fail with a lock wait timeout if it waited
		if got, want := outcomes(decisions), "left out, inserted, inserted"; got != want {
			t.Errorf("shared transaction beside a locked row: got outcomes %q, error %v, want %q", got, err, want)
		}
		return err
	})
	check.Must(t, err)
}

// A fullGroup is a GroupCommit in which a transaction runs until free is called, so that keepers
// wait for the next one. Each keeper commits in a goroutine.
type fullGroup struct {
	*GroupCommit
	t       *testing.T
	free    func()   // ends the running transaction
	sizes   chan int // number of SKUs in each later transaction
	members sync.WaitGroup
}

func newFullGroup(t *testing.T, g *GroupCommit) *fullGroup {
	t.Helper()
	call, under, end := g.Call, make(chan struct{}), make(chan struct{})
	b := &fullGroup{GroupCommit: g, t: t, sizes: make(chan int, 10), free: sync.OnceFunc(func() { close(end) })}
	g.Call = func(ctx context.Context, key string, group []*member) {
		if group[0].Q.SKU == "" {
			under <- struct{}{}
			<-end
			return
		}
		b.sizes <- len(group)
		call(ctx, key, group)
	}
	go func() { _, _ = g.Do(t.Context(), "", store.QueuedBatch{}) }()
	<-under
	t.Cleanup(b.free)
	return b
}

// join commits a batch in a goroutine, and returns when that commit waits in the group. When the
// commit ends, the goroutine passes its result to got.
func (b *fullGroup) join(ctx context.Context, batch store.QueuedBatch, got func([]orders.Decision, error)) {
	b.t.Helper()
	before := b.Len()
	b.members.Go(func() { got(b.commit(ctx, batch)) })
	check.Eventually(b.t, batch.SKU+" waits", func() bool { return b.Len() == before+1 })
}

// Keepers that wait at the same time share one transaction. If one batch is fenced off or is
// rejected by the database, only its keeper receives the error.
func TestGroupCommit(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil    func(*store.QueuedBatch)
		refused  func(error) bool
		together int64
	}{
		"all is well": {func(*store.QueuedBatch) {}, func(err error) bool { return err == nil }, 1},
		"fenced off":  {func(b *store.QueuedBatch) { b.Fence-- }, func(err error) bool { return errors.Is(err, orders.ErrFenced) }, 1},
		"bad data":    {func(b *store.QueuedBatch) { b.Orders[0].Buyer = strings.Repeat("x", 65) }, store.IsBadData, 0},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.EachSQL(t, func(t *testing.T, sql string) {
				store := migrated(t, sql)
				batches := kept(t, store, "A", "B", "C")
				tc.spoil(&batches[1])
				count := new(Counters)
				g := newFullGroup(t, NewGroupCommit(store, 500, 24, time.Minute, count))
				errs := make([]error, len(batches))
				for i, b := range batches {
					g.join(t.Context(), b, func(decisions []orders.Decision, err error) {
						if errs[i] = err; err == nil && (len(decisions) != 1 || decisions[0].Order.ID != b.Orders[0].OrderID) {
							t.Errorf("batch of %s: got decisions %+v, want one about its order", b.SKU, decisions)
						}
					})
				}
				g.free()
				g.members.Wait()
				if !tc.refused(errs[1]) || errs[0] != nil || errs[2] != nil {
					t.Errorf("keepers of the shared transaction: got errors %q, want one of the second keeper only: %v", errs, name != "all is well")
				}
				if n := count.SharedCommits.Load(); n != tc.together {
					t.Errorf("group commit: got %d shared transactions, want %d", n, tc.together)
				}
			})
		})
	}
}

// A shared transaction contains no more orders than configured.
func TestSharedTransactionIsBounded(t *testing.T) {
	store := migrated(t, servertest.OpenSQL(t, servers.KindEmbedded))
	batches := kept(t, store, "A", "B", "C")
	for i := range 2 {
		batches[i].Orders = append(batches[i].Orders, kit.QueuedOrder(fmt.Sprintf("9000000%d-0000-7000-8000-000000000000", i), "bob", "", 1))
	}
	g := newFullGroup(t, NewGroupCommit(store, 3, 24, time.Minute, new(Counters)))
	for _, b := range batches {
		g.join(t.Context(), b, func(decisions []orders.Decision, err error) {
			if err != nil || len(decisions) != len(b.Orders) {
				t.Errorf("batch of %s: got %d decisions, error %v, want %d", b.SKU, len(decisions), err, len(b.Orders))
			}
		})
	}
	g.free()
	g.members.Wait()
	if one, other := <-g.sizes, <-g.sizes; one+other != 3 || one*other != 2 {
		t.Errorf("shared transactions of 2, 2 and 1 orders: got %d and %d SKUs, want 1 and 2", one, other)
	}
}

// After a shared transaction fails, only a bounded number of keepers commit alone at once.
// Otherwise they would take all connections to the database.
func TestFailedGroupCommitsAloneInTurn(t *testing.T) {
	store := migrated(t, servertest.OpenSQL(t, servers.KindEmbedded))
	batches := kept(t, store, "A", "B", "C")
	g := NewGroupCommit(store, 500, 1, time.Minute, new(Counters))
	g.Call = func(context.Context, string, []*member) {} // no decisions
	statements := store.DB.Callback().Query()
	check.Must(t, statements.Before("gorm:query").Register("look", func(*gorm.DB) {
		if len(g.alone) != 1 {
			t.Errorf("failed group: got %d keepers that commit alone, want 1", len(g.alone))
		}
	}))
	var all sync.WaitGroup
	for _, b := range batches {
		all.Go(func() { check.Is(t, check.Err(g.commit(t.Context(), b)), nil) })
	}
	all.Wait()
	check.Must(t, statements.Remove("look"))
	if rows := kit.RowsOf(t, store.DB); len(rows) != 3 || len(g.alone) != 0 {
		t.Errorf("failed group, afterwards: got %d rows and %d keepers that commit alone, want 3 and 0", len(rows), len(g.alone))
	}
}

// A keeper that waits alone commits alone, and the timeout of shared transactions does not
// apply.
func TestLoneKeeperCommitsAlone(t *testing.T) {
	store := migrated(t, servertest.OpenSQL(t, servers.KindEmbedded))
	b, count := kept(t, store, "A")[0], new(Counters)
	g := NewGroupCommit(store, 500, 24, time.Nanosecond, count)
	if decisions, err := g.commit(t.Context(), b); err != nil || outcomes([][]orders.Decision{decisions}) != "inserted" || count.SharedCommits.Load() != 0 {
		t.Errorf("lone keeper: got decisions %+v, error %v, and %d shared transactions, want one insert and no shared transaction",
			decisions, err, count.SharedCommits.Load())
	}
	b.Fence--
	check.Is(t, check.Err(g.commit(t.Context(), b)), orders.ErrFenced)
}

// A shared transaction is cancelled when one of its keepers loses its lock, or after a timeout.
// The other keepers then commit alone.
func TestSharedTransactionEndsWithAnyKeeper(t *testing.T) {
	store := migrated(t, servertest.OpenSQL(t, servers.KindEmbedded))
	batches := kept(t, store, "A", "B")
	began, ended := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	err := store.DB.Callback().Query().Before("gorm:query").Register("hang", func(tx *gorm.DB) {
		once.Do(func() { // the group's first statement
			if _, limited := tx.Statement.Context.Deadline(); !limited {
				t.Error("shared transaction: got no timeout, want one")
			}
			close(began)
			<-tx.Statement.Context.Done()
			ended <- tx.Statement.Context.Err()
		})
	})
	check.Must(t, err)
	g := newFullGroup(t, NewGroupCommit(store, 500, 24, time.Minute, new(Counters)))
	over := errors.New("the lease is over")
	ctx, lose := context.WithCancelCause(t.Context())
	g.join(ctx, batches[0], func(decisions []orders.Decision, err error) {
		if !errors.Is(err, over) {
			t.Errorf("keeper without its lock: got decisions %+v, error %v, want %v", decisions, err, over)
		}
	})
	g.join(t.Context(), batches[1], func(decisions []orders.Decision, err error) {
		if err != nil || outcomes([][]orders.Decision{decisions}) != "inserted" {
			t.Errorf("other keeper of the group: got decisions %+v, error %v, want one insert", decisions, err)
		}
	})
	g.free()
	<-began
	lose(over)
	check.Is(t, <-ended, context.Canceled)
	g.members.Wait()
	if rows := kit.RowsOf(t, store.DB); len(rows) != 1 {
		t.Errorf("orders of the group: got %d rows, want 1", len(rows))
	}
}

// A commit that hangs does not delay the next one for longer than the timeout.
func TestHungCommitDoesNotDelayOthers(t *testing.T) {
	store := migrated(t, servertest.OpenSQL(t, servers.KindReal))
	batches := kept(t, store, "A", "B")
	hung := make(chan struct{}, 1)
	err := store.DB.Callback().Query().Before("gorm:query").Register("hang", func(tx *gorm.DB) {
		select {
		case hung <- struct{}{}:
			<-tx.Statement.Context.Done()
		default: // only the first one hangs
		}
	})
	check.Must(t, err)
	g := NewGroupCommit(store, 500, 24, 50*time.Millisecond, new(Counters))
	ctx, end := context.WithCancel(t.Context())
	var hanging sync.WaitGroup
	defer hanging.Wait()
	defer end()
	hanging.Go(func() {
		if _, err := g.commit(ctx, batches[0]); err == nil {
			t.Error("commit that hangs: got no error, want one")
		}
	})
	check.Eventually(t, "the first commit hangs", func() bool { return len(hung) > 0 })
	check.OK(t, check.Err(g.commit(check.Context(t), batches[1])))
}

func migrated(t testing.TB, sql string) *store.Store {
	t.Helper()
	st, err := store.Open(sql, store.Config{Timeout: time.Minute})
	check.Must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	check.Must(t, check.Err(st.Migrate(t.Context())))
	return st
}
