package orders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// kept opens sales of one unit each, has them kept, and returns what is to be
// carried of each: one order.
func kept(t *testing.T, store *Store, skus ...string) []batch {
	t.Helper()
	var batches []batch
	for i, sku := range skus {
		if _, err := store.PutSale(t.Context(), sale(sku, 1, 1)); err != nil {
			t.Fatal(err)
		}
		taken, err := store.TakeOver(t.Context(), sku)
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("%08d-0000-7000-8000-000000000000", i+1)
		batches = append(batches, batch{sku, taken.Fence, []inventory.Queued{queuedOrder(id, "ann", "k", 1)}})
	}
	return batches
}

// tidings are what became of each batch, in a word.
func tidings(verdicts [][]verdict) string {
	var words []string
	for _, its := range verdicts {
		switch {
		case its == nil:
			words = append(words, "left out")
		case its[0].insert:
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
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := openStore(t, sql)
		batches := kept(t, store, "A", "B", "C")
		batches[0].orders = append(batches[0].orders, queuedOrder("90000000-0000-7000-8000-000000000000", "bob", "", 1))
		batches[1].fence-- // another keeper has taken over since

		first, err := store.CommitTogether(t.Context(), batches)
		if err != nil || tidings(first) != "inserted, left out, inserted" {
			t.Fatalf("%s, %v", tidings(first), err)
		}
		if bob := first[0][1].order; bob.Status != Rejected || bob.Reason != "sold_out" {
			t.Errorf("the second order for one unit is %s %s", bob.Status, bob.Reason)
		}
		batches[1].fence++
		again, err := store.CommitTogether(t.Context(), batches)
		if err != nil || tidings(again) != "known, inserted, known" {
			t.Errorf("again: %s, %v", tidings(again), err)
		}
		if rows := rowsOf(t, store); len(rows) != 4 {
			t.Errorf("%d rows, want 4", len(rows))
		}
		for _, b := range batches {
			if s, err := store.Sale(t.Context(), b.sku); err != nil || s.Sold != 1 {
				t.Errorf("%s: sold %d, %v", b.sku, s.Sold, err)
			}
		}
	})
}

// A row that somebody else has locked is not waited for, as long as others have
// theirs.
func TestCommitTogetherWaitsForNobody(t *testing.T) {
	store := openStore(t, servertest.OpenSQL(t, servers.KindReal))
	batches := kept(t, store, "A", "B")
	err := store.db.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
		if _, err := store.lockSale(tx, "A"); err != nil {
			return err
		}
		verdicts, err := store.CommitTogether(t.Context(), batches) // else: the lock wait timeout
		if got := tidings(verdicts); got != "left out, inserted" {
			t.Errorf("%s, %v", got, err)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// queued waits until n batches wait for a transaction of c.
func (c *convoy) queued(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d batches wait", n), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.waiting) == n
	})
}

// Who waits at the same time goes in one transaction. One that the database
// refuses, or that is fenced off, hears so, and the others do not.
func TestConvoy(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil    func(*batch)
		refused  func(error) bool
		together int64
	}{
		"all is well": {func(*batch) {}, func(err error) bool { return err == nil }, 1},
		"fenced off":  {func(b *batch) { b.fence-- }, func(err error) bool { return errors.Is(err, ErrFenced) }, 1},
		"bad data":    {func(b *batch) { b.orders[0].Buyer = strings.Repeat("x", 65) }, isBadData, 0},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.EachSQL(t, func(t *testing.T, sql string) {
				store := openStore(t, sql)
				batches := kept(t, store, "A", "B", "C")
				tc.spoil(&batches[1])
				count := new(Counters)
				c := newConvoy(store, 500, count)
				for range travelling { // as many as may be are under way
					c.turns <- struct{}{}
				}
				errs := make([]error, len(batches))
				var wg sync.WaitGroup
				for i, b := range batches {
					wg.Go(func() {
						verdicts, err := c.commit(t.Context(), b)
						if errs[i] = err; err == nil && (len(verdicts) != 1 || verdicts[0].order.ID != b.orders[0].OrderID) {
							t.Errorf("%s: %+v", b.sku, verdicts)
						}
					})
				}
				c.queued(t, len(batches))
				<-c.turns
				wg.Wait()
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

// waits has a batch wait in c without anybody who would see to it.
func (c *convoy) waits(ctx context.Context, b batch) *traveller {
	t := &traveller{batch: b, ctx: ctx, done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, t)
	return t
}

// Who has carried those before it, and found no room for itself, goes at once.
func TestConvoyIsFull(t *testing.T) {
	for most, skus := range map[int][]string{1: {"A", "B"}, 2: {"A", "B", "C"}} {
		store := openStore(t, servertest.OpenSQL(t, servers.KindEmbedded))
		batches := kept(t, store, skus...)
		c := newConvoy(store, most, new(Counters))
		var before []*traveller
		for _, b := range batches[:most] {
			before = append(before, c.waits(t.Context(), b))
		}
		last := make(chan error, 1)
		go func() {
			_, err := c.commit(t.Context(), batches[most])
			last <- err
		}()
		select {
		case err := <-last:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("it waits for somebody to come")
		}
		if n := len(c.turns); n != 0 {
			t.Errorf("%d turns were not given back", n)
		}
		for _, b := range before {
			if <-b.done; tidings([][]verdict{b.verdicts}) != "inserted" {
				t.Errorf("%s was not carried", b.sku)
			}
		}
		if s, err := store.Sale(t.Context(), skus[most]); err != nil || s.Sold != 1 {
			t.Errorf("%s: sold %d, %v", s.SKU, s.Sold, err)
		}
	}
}

// A transaction takes as many orders as it may, and one batch however large.
func TestConvoyTakes(t *testing.T) {
	c := newConvoy(nil, 4, new(Counters))
	for _, orders := range []int{2, 2, 1, 9, 3} {
		c.waits(t.Context(), batch{orders: make([]inventory.Queued, orders)})
	}
	var groups []int
	for group := c.take(); len(group) > 0; group = c.take() {
		groups = append(groups, len(group))
	}
	if want := []int{2, 1, 1, 1}; !slices.Equal(groups, want) {
		t.Errorf("groups of %v, want %v", groups, want)
	}
}

// A transaction ends when one of its keepers may no longer go on, and of itself
// after a time; the others then go by themselves.
func TestConvoyEndsWithAnyKeeper(t *testing.T) {
	store := openStore(t, servertest.OpenSQL(t, servers.KindEmbedded))
	batches := kept(t, store, "A", "B")
	began, ended := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	err := store.db.Callback().Query().Before("gorm:query").Register("hang", func(tx *gorm.DB) {
		once.Do(func() { // the convoy's first statement
			if _, limited := tx.Statement.Context.Deadline(); !limited {
				t.Error("it may take for ever")
			}
			close(began)
			<-tx.Statement.Context.Done()
			ended <- tx.Statement.Context.Err()
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	c := newConvoy(store, 500, new(Counters))
	ctx, lose := context.WithCancel(t.Context())
	lost := c.waits(ctx, batches[0])
	verdicts := make(chan []verdict, 1)
	go func() {
		its, err := c.commit(t.Context(), batches[1])
		if err != nil {
			t.Error(err)
		}
		verdicts <- its
	}()
	<-began
	lose()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the transaction ended with %v", err)
	}
	if <-lost.done; lost.verdicts != nil {
		t.Errorf("carried without its keeper: %+v", lost.verdicts)
	}
	if got := tidings([][]verdict{<-verdicts}); got != "inserted" {
		t.Errorf("the other one: %s", got)
	}
}

// A keeper that may no longer go on does not wait, and is not taken along.
func TestConvoyIsLeft(t *testing.T) {
	store := openStore(t, servertest.OpenSQL(t, servers.KindEmbedded))
	batches := kept(t, store, "A")
	c := newConvoy(store, 500, new(Counters))
	for range travelling {
		c.turns <- struct{}{}
	}
	lost := errors.New("the lease is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := c.commit(ctx, batches[0])
		left <- err
	}()
	c.queued(t, 1)
	cancel(lost)
	if err := <-left; !errors.Is(err, lost) {
		t.Errorf("left with %v", err)
	}
	c.queued(t, 0)
	if rows := rowsOf(t, store); len(rows) > 0 {
		t.Errorf("carried all the same: %+v", rows)
	}
}
