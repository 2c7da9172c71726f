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

// kept opens sales of one unit each, has them kept, and returns what is to be
// carried of each: one order.
func kept(t *testing.T, st *store.Store, skus ...string) []store.SaleOrders {
	t.Helper()
	var batches []store.SaleOrders
	for i, sku := range skus {
		kit.Put(t, st, kit.Sale(sku, 1, 1))
		taken, err := st.TakeOver(t.Context(), sku)
		check.Must(t, err)
		id := fmt.Sprintf("%08d-0000-7000-8000-000000000000", i+1)
		batches = append(batches, store.SaleOrders{SKU: sku, Fence: taken.Fence, Orders: []inventory.Queued{kit.QueuedOrder(id, "ann", "k", 1)}})
	}
	return batches
}

// tidings are what became of each batch, in a word.
func tidings(decisions [][]orders.Decision) string {
	var words []string
	for _, its := range decisions {
		switch {
		case its == nil:
			words = append(words, "left out")
		case its[0].Action == orders.Insert:
			words = append(words, "inserted")
		default:
			words = append(words, "known")
		}
	}
	return strings.Join(words, ", ")
}

// Each SKU of a transaction is judged by its own row, and who cannot go along
// does not keep the others from it.
func TestCommitTogether(t *testing.T) {
	t.Parallel()
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := migrated(t, sql)
		batches := kept(t, store, "A", "B", "C")
		batches[0].Orders = append(batches[0].Orders, kit.QueuedOrder("90000000-0000-7000-8000-000000000000", "bob", "", 1))
		batches[1].Fence-- // another keeper has taken over since

		first, err := store.CommitTogether(t.Context(), batches)
		if err != nil || tidings(first) != "inserted, left out, inserted" {
			t.Fatalf("%s, %v", tidings(first), err)
		}
		if bob := first[0][1].Order; bob.Status != orders.Rejected || bob.Reason != "sold_out" {
			t.Errorf("the second order for one unit is %s %s", bob.Status, bob.Reason)
		}
		batches[1].Fence++
		again, err := store.CommitTogether(t.Context(), batches)
		if err != nil || tidings(again) != "known, inserted, known" {
			t.Errorf("again: %s, %v", tidings(again), err)
		}
		if rows := kit.RowsOf(t, store.DB); len(rows) != 4 {
			t.Errorf("%d rows, want 4", len(rows))
		}
		for _, b := range batches {
			if s, err := store.Sale(t.Context(), b.SKU); err != nil || s.Sold != 1 {
				t.Errorf("%s: sold %d, %v", b.SKU, s.Sold, err)
			}
		}
	})
}

// A row that somebody else has locked is not waited for, as long as others have
// theirs.
func TestCommitTogetherWaitsForNobody(t *testing.T) {
	store := migrated(t, servertest.OpenSQL(t, servers.KindReal))
	batches := kept(t, store, "A", "B", "C")
	err := store.DB.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
		if _, err := store.LockSale(tx, "A"); err != nil {
			return err
		}
		decisions, err := store.CommitTogether(t.Context(), batches) // else: the lock wait timeout
		if got := tidings(decisions); got != "left out, inserted, inserted" {
			t.Errorf("%s, %v", got, err)
		}
		return err
	})
	check.Must(t, err)
}

// The members of a group that waits while as many transactions are under way as
// may be. Each commits in a goroutine of its own.
type testedGroup struct {
	*GroupCommit
	t       *testing.T
	free    func()   // ends the transactions that are under way
	sizes   chan int // of the groups that go then
	members sync.WaitGroup
}

func fullGroup(t *testing.T, g *GroupCommit) *testedGroup {
	t.Helper()
	call, under, end := g.Call, make(chan struct{}), make(chan struct{})
	b := &testedGroup{GroupCommit: g, t: t, sizes: make(chan int, 10), free: sync.OnceFunc(func() { close(end) })}
	g.Call = func(ctx context.Context, key string, group []*member) {
		if group[0].Q.SKU == "" {
			under <- struct{}{}
			<-end
			return
		}
		b.sizes <- len(group)
		call(ctx, key, group)
	}
	go func() { _, _ = g.Do(t.Context(), "", store.SaleOrders{}) }()
	<-under
	t.Cleanup(b.free)
	return b
}

// join has one more batch wait, and hands what becomes of it to got.
func (b *testedGroup) join(ctx context.Context, its store.SaleOrders, got func([]orders.Decision, error)) {
	b.t.Helper()
	before := b.Len()
	b.members.Go(func() { got(b.commit(ctx, its)) })
	check.Eventually(b.t, its.SKU+" waits", func() bool { return b.Len() == before+1 })
}

// Who waits at the same time goes in one transaction. One that the database
// refuses, or that is fenced off, hears so, and the others do not.
func TestGroupCommit(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil    func(*store.SaleOrders)
		refused  func(error) bool
		together int64
	}{
		"all is well": {func(*store.SaleOrders) {}, func(err error) bool { return err == nil }, 1},
		"fenced off":  {func(b *store.SaleOrders) { b.Fence-- }, func(err error) bool { return errors.Is(err, orders.ErrFenced) }, 1},
		"bad data":    {func(b *store.SaleOrders) { b.Orders[0].Buyer = strings.Repeat("x", 65) }, store.IsBadData, 0},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.EachSQL(t, func(t *testing.T, sql string) {
				store := migrated(t, sql)
				batches := kept(t, store, "A", "B", "C")
				tc.spoil(&batches[1])
				count := new(Counters)
				g := fullGroup(t, NewGroupCommit(store, 500, 24, time.Minute, count))
				errs := make([]error, len(batches))
				for i, b := range batches {
					g.join(t.Context(), b, func(decisions []orders.Decision, err error) {
						if errs[i] = err; err == nil && (len(decisions) != 1 || decisions[0].Order.ID != b.Orders[0].OrderID) {
							t.Errorf("%s: %+v", b.SKU, decisions)
						}
					})
				}
				g.free()
				g.members.Wait()
				if !tc.refused(errs[1]) || errs[0] != nil || errs[2] != nil {
					t.Errorf("%q", errs)
				}
				if n := count.Together.Load(); n != tc.together {
					t.Errorf("%d transactions carried several SKUs, want %d", n, tc.together)
				}
			})
		})
	}
}

// A group has as many orders as a transaction may have.
func TestGroupIsBounded(t *testing.T) {
	store := migrated(t, servertest.OpenSQL(t, servers.KindEmbedded))
	batches := kept(t, store, "A", "B", "C")
	for i := range 2 {
		batches[i].Orders = append(batches[i].Orders, kit.QueuedOrder(fmt.Sprintf("9000000%d-0000-7000-8000-000000000000", i), "bob", "", 1))
	}
	g := fullGroup(t, NewGroupCommit(store, 3, 24, time.Minute, new(Counters)))
	for _, b := range batches {
		g.join(t.Context(), b, func(decisions []orders.Decision, err error) {
			if err != nil || len(decisions) != len(b.Orders) {
				t.Errorf("%s: %d decisions, %v", b.SKU, len(decisions), err)
			}
		})
	}
	g.free()
	g.members.Wait()
	if one, other := <-g.sizes, <-g.sizes; one+other != 3 || one*other != 2 {
		t.Errorf("groups of %d and %d SKUs, which have 2, 2 and 1 orders", one, other)
	}
}

// After a group has failed, only so many of its members commit at once, or they would take
// all connections: each has a place while it does, and leaves it.
func TestPlacesAfterAGroup(t *testing.T) {
	store := migrated(t, servertest.OpenSQL(t, servers.KindEmbedded))
	batches := kept(t, store, "A", "B", "C")
	g := NewGroupCommit(store, 500, 1, time.Minute, new(Counters))
	g.Call = func(context.Context, string, []*member) {} // no decisions
	statements := store.DB.Callback().Query()
	check.Must(t, statements.Before("gorm:query").Register("look", func(*gorm.DB) {
		if len(g.alone) != 1 {
			t.Errorf("%d of 1 places are taken in the midst of a commit", len(g.alone))
		}
	}))
	var all sync.WaitGroup
	for _, b := range batches {
		all.Go(func() { check.Is(t, check.Err(g.commit(t.Context(), b)), nil) })
	}
	all.Wait()
	check.Must(t, statements.Remove("look"))
	if rows := kit.RowsOf(t, store.DB); len(rows) != 3 || len(g.alone) != 0 {
		t.Errorf("%d rows, want 3; %d places are still taken", len(rows), len(g.alone))
	}
}

// A batch alone goes alone, for as long as its keeper may.
func TestGroupOfOne(t *testing.T) {
	store := migrated(t, servertest.OpenSQL(t, servers.KindEmbedded))
	b, count := kept(t, store, "A")[0], new(Counters)
	g := NewGroupCommit(store, 500, 24, time.Nanosecond, count)
	if decisions, err := g.commit(t.Context(), b); err != nil || tidings([][]orders.Decision{decisions}) != "inserted" || count.Together.Load() != 0 {
		t.Errorf("%+v, %v", decisions, err)
	}
	b.Fence--
	check.Is(t, check.Err(g.commit(t.Context(), b)), orders.ErrFenced)
}

// A transaction ends when one of its keepers may no longer go on, and of itself
// after a time; the others then go by themselves.
func TestGroupEndsWithAnyKeeper(t *testing.T) {
	store := migrated(t, servertest.OpenSQL(t, servers.KindEmbedded))
	batches := kept(t, store, "A", "B")
	began, ended := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	err := store.DB.Callback().Query().Before("gorm:query").Register("hang", func(tx *gorm.DB) {
		once.Do(func() { // the group's first statement
			if _, limited := tx.Statement.Context.Deadline(); !limited {
				t.Error("it may take for ever")
			}
			close(began)
			<-tx.Statement.Context.Done()
			ended <- tx.Statement.Context.Err()
		})
	})
	check.Must(t, err)
	g := fullGroup(t, NewGroupCommit(store, 500, 24, time.Minute, new(Counters)))
	over := errors.New("the lease is over")
	ctx, lose := context.WithCancelCause(t.Context())
	g.join(ctx, batches[0], func(decisions []orders.Decision, err error) {
		if !errors.Is(err, over) {
			t.Errorf("carried without its keeper: %+v, %v", decisions, err)
		}
	})
	g.join(t.Context(), batches[1], func(decisions []orders.Decision, err error) {
		if err != nil || tidings([][]orders.Decision{decisions}) != "inserted" {
			t.Errorf("the other one: %+v, %v", decisions, err)
		}
	})
	g.free()
	<-began
	lose(over)
	check.Is(t, <-ended, context.Canceled)
	g.members.Wait()
	if rows := kit.RowsOf(t, store.DB); len(rows) != 1 {
		t.Errorf("%d rows, want one", len(rows))
	}
}

// A keeper that may no longer go on does not wait, and is not taken along.
func TestGroupIsLeft(t *testing.T) {
	store := migrated(t, servertest.OpenSQL(t, servers.KindEmbedded))
	g := fullGroup(t, NewGroupCommit(store, 500, 24, time.Minute, new(Counters)))
	over := errors.New("the lease is over")
	ctx, lose := context.WithCancelCause(t.Context())
	g.join(ctx, kept(t, store, "A")[0], func(_ []orders.Decision, err error) {
		if !errors.Is(err, over) {
			t.Errorf("left with %v", err)
		}
	})
	lose(over)
	g.members.Wait()
	g.free()
	if err := g.Wait(t.Context()); err != nil || len(kit.RowsOf(t, store.DB)) > 0 {
		t.Errorf("carried all the same: %v", err)
	}
}

// A commit that hangs does not keep others back: whoever comes next goes on beside it.
func TestGroupBehindHungCommit(t *testing.T) {
	store := migrated(t, servertest.OpenSQL(t, servers.KindReal))
	batches := kept(t, store, "A", "B")
	hung := make(chan struct{}, 1)
	err := store.DB.Callback().Query().Before("gorm:query").Register("hang", func(tx *gorm.DB) {
		select {
		case hung <- struct{}{}:
			<-tx.Statement.Context.Done()
		default: // one hangs already
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
			t.Error("it did not hang")
		}
	})
	check.Eventually(t, "it hangs", func() bool { return len(hung) > 0 })
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
