package feed_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/feed"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func open(t testing.TB, sql string) *store.Store {
	t.Helper()
	s, err := store.Open(sql, store.Config{})
	check.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	check.Must(t, check.Err(s.Migrate(t.Context())))
	return s
}

// run starts a feed, which ends with the test or when stop is called.
func run(t testing.TB, s *store.Store, rush func() bool) (f *feed.Feed, stop func()) {
	t.Helper()
	f = feed.New(feed.Config{Store: s, Log: check.Log(t), Rush: rush})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f.Run(ctx) }()
	stop = func() { cancel(); check.Receive(t, "the feed stops", ended) }
	t.Cleanup(stop)
	return f, stop
}

// A reader that waits receives a change as soon as any node has numbered it.
func TestReadersWait(t *testing.T) {
	t.Parallel()
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		s := open(t, sql)
		one, _ := run(t, s, nil)
		two, _ := run(t, open(t, sql), nil)
		for i, f := range []*feed.Feed{one, two} {
			_, end, err := f.Read(t.Context(), "", 100, 0)
			check.Must(t, err)
			sku := fmt.Sprint("S", i)
			got := make(chan string, 1)
			go func() {
				for { // the sale may get its number in several steps
					changes, next, err := f.Read(check.Context(t), end, 10, time.Hour)
					if err != nil {
						got <- err.Error()
						return
					}
					for _, c := range changes {
						if c.Sale != nil && c.Sale.SKU == sku {
							got <- sku
							return
						}
					}
					end = next
				}
			}()
			check.Must(t, check.Err(s.PutSale(t.Context(), kit.Sale(sku, 1, 1))))
			if found := check.Receive(t, "the reader receives the change", got); found != sku {
				t.Errorf("reader %d: got %s, want %s", i, found, sku)
			}
		}
		check.Eventually(t, "nothing waits for a number", func() bool { return one.Lag() == 0 && two.Lag() == 0 })
	})
}

// A wait ends with its time, when the feed stops, and at once if too many readers wait.
func TestWaitsEnd(t *testing.T) {
	t.Parallel()
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		f, stop := run(t, open(t, sql), nil)
		if changes, next, err := f.Read(t.Context(), "", 10, time.Millisecond); len(changes) != 0 || next == "" || err != nil {
			t.Errorf("read of an empty feed: got %d changes, cursor %q, error %v, want none and a cursor", len(changes), next, err)
		}
		const readers = feed.MaxWaiting + 1
		errs := make(chan error, readers)
		for range readers {
			go func() { _, _, err := f.Read(t.Context(), "", 10, time.Hour); errs <- err }()
		}
		check.OK(t, check.Receive(t, "one reader too many is answered at once", errs))
		if n := len(errs); n > 0 {
			t.Errorf("readers answered at once: got %d more, want one", n)
		}
		stop()
		for range readers - 1 {
			check.OK(t, check.Receive(t, "a reader is answered when the feed stops", errs))
		}
	})
}

// While orders wait in a long queue, the node numbers no changes, and the other nodes are asked to
// number none.
func TestRushComesFirst(t *testing.T) {
	t.Parallel()
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		s := open(t, sql)
		var rush atomic.Bool
		rush.Store(true)
		f, _ := run(t, s, rush.Load)
		check.Eventually(t, "the numbering is deferred", func() bool {
			var deferred bool
			check.Must(t, s.DB.Raw("SELECT not_before > ? FROM feed", kit.ClockOf(t, s.DB)).Row().Scan(&deferred))
			return deferred
		})
		check.Must(t, check.Err(s.PutSale(t.Context(), kit.Sale("S", 1, 1))))
		check.Eventually(t, "the change has waited for a while", func() bool { return f.Lag() > 0 })
		rush.Store(false)
		check.Eventually(t, "the change is numbered", func() bool {
			changes, _, err := f.Read(t.Context(), "", 10, 0)
			return err == nil && len(changes) == 1
		})
	})
}

// A queue that does not get shorter does not stop the feed for ever.
func TestRushIsBounded(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		s := open(t, servertest.OpenSQL(t, servers.KindEmbedded))
		f, _ := run(t, s, func() bool { return true })
		check.Must(t, check.Err(s.PutSale(t.Context(), kit.Sale("S", 1, 1))))
		for _, numbered := range []int{0, 1} {
			time.Sleep(9 * time.Minute)
			if changes, _, err := f.Read(t.Context(), "", 10, 0); err != nil || len(changes) != numbered {
				t.Errorf("changes during a rush: got %d, error %v, want %d", len(changes), err, numbered)
			}
		}
	})
}
