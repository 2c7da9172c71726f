package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// stocked returns a store with a sale S and n pending orders (kit.Stock).
func stocked(t testing.TB, sql string, n int) (*Store, []string) {
	t.Helper()
	store := openStore(t, sql)
	check.Must(t, check.Err(store.PutSale(t.Context(), kit.Sale("S", int64(n)+5, 1))))
	return store, kit.InsertPendingOrders(t, store.DB, n)
}

// If the same orders are paid, cancelled and expired at the same time, one of the three succeeds
// for each order, and only its callers receive a success.
func TestCloseRace(t *testing.T) {
	t.Parallel()
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		const n = 60
		store, ids := stocked(t, sql, n)
		now := kit.ClockOf(t, store.DB)
		// A third is overdue, a third will be in 20 ms, and a third has an hour.
		for i, id := range ids {
			at := map[int]time.Duration{0: -time.Second, 1: 20 * time.Millisecond, 2: time.Hour}[i%3]
			kit.Exec(t, store.DB, "UPDATE orders SET expires_at = ? WHERE id = ?", now.Add(at), id)
		}
		var paid, cancelled [n]atomic.Int64
		var racers sync.WaitGroup
		ctx := t.Context()
		order := check.Rand(t).Perm(n)
		for range 3 {
			racers.Go(func() {
				for _, i := range order {
					switch o, err := store.Pay(ctx, fmt.Sprint("buyer-", i), ids[i], "ref"); {
					case err == nil && o.Status == orders.Paid:
						paid[i].Add(1)
					case !errors.Is(err, orders.ErrOrderClosed):
						t.Errorf("pay order %d: got %+v, error %v, want it paid or ErrOrderClosed", i, o, err)
					}
				}
			})
			racers.Go(func() {
				for _, i := range order {
					switch o, err := store.Cancel(ctx, fmt.Sprint("buyer-", i), ids[i]); {
					case err == nil && o.Status == orders.Cancelled:
						cancelled[i].Add(1)
					case !errors.Is(err, orders.ErrOrderClosed) && !errors.Is(err, orders.ErrAlreadyPaid):
						t.Errorf("cancel order %d: got %+v, error %v, want it cancelled, ErrOrderClosed or ErrAlreadyPaid", i, o, err)
					}
				}
			})
			racers.Go(func() {
				for range 5 {
					if _, err := store.Expire(ctx); err != nil {
						t.Errorf("expire: got error %v, want none", err)
					}
				}
			})
		}
		racers.Wait()

		rows, ends := kit.RowsOf(t, store.DB), map[orders.Status]int{}
		for i, id := range ids {
			status := rows[id].Status
			ends[status]++
			if p, c := paid[i].Load(), cancelled[i].Load(); p > 0 != (status == orders.Paid) || c > 0 != (status == orders.Cancelled) {
				t.Errorf("order %d: got status %s with %d payments and %d cancellations that succeeded, want the one that the status names", i, status, p, c)
			}
		}
		kit.MustBeEmpty(t, kit.InconsistentOrders(t, store.DB))
		t.Logf("orders by status: %v", ends)
	})
}

// An order is paid after the transaction that expires orders has read it, and before the
// transaction writes. The order stays paid and its units stay sold. On SQLite this cannot
// happen, because transactions that write run one after the other.
func TestOrderPaidDuringExpiryStaysPaid(t *testing.T) {
	store, ids := stocked(t, servertest.OpenSQL(t, servers.KindReal), 3)
	kit.MakeOverdue(t, store.DB, ids[1:]...)
	pay := func() {
		kit.Exec(t, store.DB, "UPDATE orders SET status = ?, paid_at = UTC_TIMESTAMP(3) WHERE id = ?", orders.Paid, ids[1])
	}
	late := kit.Onto(t, store.WithPool, kit.InterruptedBy(store.DB, "FROM `orders`", pay))
	if n, err := late.Expire(t.Context()); err != nil || n["S"] != 1 {
		t.Errorf("expired orders: got %v, error %v, want 1 of S", n, err)
	}
	if rows := kit.RowsOf(t, store.DB); rows[ids[1]].Status != orders.Paid || rows[ids[2]].Status != orders.Expired {
		t.Errorf("orders: got %s and %s, want paid and expired", rows[ids[1]].Status, rows[ids[2]].Status)
	}
	kit.MustBeEmpty(t, kit.InconsistentOrders(t, store.DB))
}

// An order that becomes overdue after its sale was locked does not expire before the next sweep.
// Otherwise its closed_at would be earlier than its expires_at.
func TestExpiredOrderIsClosedAfterItsExpiry(t *testing.T) {
	store, ids := stocked(t, servertest.OpenSQL(t, servers.KindReal), 2)
	kit.MakeOverdue(t, store.DB, ids[0])
	becomesOverdue := func() {
		expires := kit.ClockOf(t, store.DB).Add(2 * time.Millisecond)
		kit.Exec(t, store.DB, "UPDATE orders SET expires_at = ? WHERE id = ?", expires, ids[1])
		check.Eventually(t, "the order is overdue", func() bool { return kit.ClockOf(t, store.DB).After(expires) })
	}
	interrupted := kit.Onto(t, store.WithPool, kit.InterruptedBy(store.DB, "FOR UPDATE", becomesOverdue))
	check.Must(t, check.Err(interrupted.Expire(t.Context())))
	check.Must(t, check.Err(store.Expire(t.Context())))
	for id, o := range kit.RowsOf(t, store.DB) {
		if o.Status != orders.Expired || o.ClosedAt.Before(o.ExpiresAt) {
			t.Errorf("order %s: got %s, closed at %v, want expired, closed at %v or later", id, o.Status, o.ClosedAt, o.ExpiresAt)
		}
	}
}

// InconsistentOrders finds an order that was closed without the condition on its status.
func TestCloseNeedsItsCondition(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 2)
		ctx := t.Context()
		for i, id := range ids {
			o, err := store.OrderOf(ctx, fmt.Sprint("buyer-", i), id)
			if err != nil || o.Status != orders.PendingPayment {
				t.Fatalf("order: got %+v, error %v, want a pending one", o, err)
			}
		}
		check.Must(t, check.Err(store.Pay(ctx, "buyer-0", ids[0], "ref")))
		check.Must(t, check.Err(store.Cancel(ctx, "buyer-1", ids[1])))
		if wrong := kit.InconsistentOrders(t, store.DB); len(wrong) > 0 {
			t.Fatalf("closed orders: got violations %q, want none", wrong)
		}
		for _, id := range ids { // close the orders as if they were still pending
			kit.Exec(t, store.DB, "UPDATE orders SET status = ?, closed_at = ? WHERE id = ?", orders.Expired, time.Now().UTC(), id)
			kit.Exec(t, store.DB, "UPDATE sales SET sold = sold - 1 WHERE sku = 'S' AND sold > 0")
			if id == ids[0] && len(kit.InconsistentOrders(t, store.DB)) == 0 {
				t.Error("BrokenClosing of a paid order that was closed: got none, want one")
			}
		}
	})
}

// A payment after expires_at is refused, even if no sweeper has run, and closes the order.
func TestPaymentAfterExpiryIsRefused(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 1)
		kit.MakeOverdue(t, store.DB, ids...)
		for range 2 {
			check.Is(t, check.Err(store.Pay(t.Context(), "buyer-0", ids[0], "ref")), orders.ErrOrderClosed)
		}
		if o := kit.RowsOf(t, store.DB)[ids[0]]; o.Status != orders.Expired || o.PaymentRef != nil {
			t.Errorf("order: got %+v, want it expired, without a payment", o)
		}
		kit.MustBeEmpty(t, kit.InconsistentOrders(t, store.DB))
	})
}

// An order that is inserted just after the payment's update is paid, and the answer is not
// "order closed".
func TestPaymentOfAJustInsertedOrder(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 1)
		id := ids[0]
		kit.Exec(t, store.DB, "UPDATE orders SET id = 'not yet'")
		late := kit.Onto(t, store.WithPool, kit.InterruptedBy(store.DB, "", func() { kit.Exec(t, store.DB, "UPDATE orders SET id = ?", id) }))
		if o, err := late.Pay(t.Context(), "buyer-0", id, "ref"); err != nil || o.Status != orders.Paid {
			t.Errorf("Pay: got %+v, error %v, want a paid order", o, err)
		}
	})
}

func TestCloseReplays(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 3)
		ctx := t.Context()
		kit.MakeOverdue(t, store.DB, ids[2])
		if n, err := store.Expire(ctx); err != nil || n["S"] != 1 {
			t.Fatalf("expire: got %v, error %v, want 1 order of S", n, err)
		}
		pay := func(i int, ref string) (*orders.Order, error) {
			return store.Pay(ctx, fmt.Sprint("buyer-", i), ids[i], ref)
		}
		cancel := func(i int) (*orders.Order, error) { return store.Cancel(ctx, fmt.Sprint("buyer-", i), ids[i]) }
		for _, test := range []struct {
			what string
			do   func() (*orders.Order, error)
			want orders.Status
			err  error
		}{
			{"pay", func() (*orders.Order, error) { return pay(0, "ref") }, orders.Paid, nil},
			{"pay again", func() (*orders.Order, error) { return pay(0, "ref") }, orders.Paid, nil},
			{"pay again with another ref", func() (*orders.Order, error) { return pay(0, "other") }, orders.Paid, orders.ErrAlreadyPaid},
			{"cancel a paid order", func() (*orders.Order, error) { return cancel(0) }, orders.Paid, orders.ErrAlreadyPaid},
			{"cancel", func() (*orders.Order, error) { return cancel(1) }, orders.Cancelled, nil},
			{"cancel again", func() (*orders.Order, error) { return cancel(1) }, orders.Cancelled, nil},
			{"pay a cancelled order", func() (*orders.Order, error) { return pay(1, "ref") }, orders.Cancelled, orders.ErrOrderClosed},
			{"pay an expired order", func() (*orders.Order, error) { return pay(2, "ref") }, orders.Expired, orders.ErrOrderClosed},
			{"cancel an expired order", func() (*orders.Order, error) { return cancel(2) }, orders.Expired, orders.ErrOrderClosed},
		} {
			o, err := test.do()
			if !errors.Is(err, test.err) || o == nil || o.Status != test.want {
				t.Errorf("repeated close, %s: got %+v, error %v, want %s, %v", test.what, o, err, test.want, test.err)
			}
		}
		before := kit.RowsOf(t, store.DB)
		for i := range ids { // eve is not the buyer
			if o, err := store.Pay(ctx, "eve", ids[i], "ref"); o != nil || !errors.Is(err, orders.ErrNotFound) {
				t.Errorf("eve pays order %d: got %+v, error %v, want ErrNotFound", i, o, err)
			}
			if o, err := store.Cancel(ctx, "eve", ids[i]); o != nil || !errors.Is(err, orders.ErrNotFound) {
				t.Errorf("eve cancels order %d: got %+v, error %v, want ErrNotFound", i, o, err)
			}
		}
		if got := kit.RowsOf(t, store.DB); !reflect.DeepEqual(before, got) {
			t.Errorf("after eve's calls: got rows %+v, want %+v", got, before)
		}
		kit.MustBeEmpty(t, kit.InconsistentOrders(t, store.DB))
	})
}

// Each call of Expire closes at most one batch of a sale.
func TestExpireInBatches(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, expireBatch+50)
		kit.MakeOverdue(t, store.DB, ids[:expireBatch+40]...)
		var closed []int64
		for {
			n, err := store.Expire(t.Context())
			check.Must(t, err)
			if n["S"] == 0 {
				break
			}
			closed = append(closed, n["S"])
		}
		if fmt.Sprint(closed) != fmt.Sprint([]int64{expireBatch, 40}) {
			t.Errorf("orders closed by each call: got %v, want %d and 40", closed, expireBatch)
		}
		kit.MustBeEmpty(t, kit.InconsistentOrders(t, store.DB))
	})
}

// A locked sale does not occupy the connections that other sales need. Callers that cancel its
// orders share one connection, and receive an error after the timeout.
func TestLockedSaleDoesNotBlockOtherSales(t *testing.T) {
	t.Parallel()
	dsn := servertest.OpenSQL(t, servers.KindReal)
	_, ids := stocked(t, dsn, 12)
	connect := func(cfg Config) *Store {
		store, err := Open(dsn, cfg)
		check.Must(t, err)
		t.Cleanup(func() { _ = store.Close() })
		return store
	}
	store, outside := connect(Config{Connections: 4}), connect(Config{WaitTimeout: time.Minute})
	kit.PutSale(t, store, kit.Sale("T", 10, 1))
	kit.Exec(t, store.DB, "UPDATE orders SET sku = 'T' WHERE id = ?", ids[0])
	kit.Exec(t, store.DB, "UPDATE sales SET sold = IF(sku = 'T', 1, sold - 1)")

	cancels := make(chan error, len(ids))
	check.Must(t, outside.Transact(t.Context(), func(tx *gorm.DB) error {
		_, err := outside.LockSale(tx, "S")
		check.Must(t, err)
		for i := range ids[1:] {
			go func() { cancels <- check.Err(store.Cancel(t.Context(), fmt.Sprint("buyer-", i+1), ids[i+1])) }()
		}
		check.Eventually(t, "all cancellations wait", func() bool { return store.saleSteps.Len() == len(ids)-1 })
		if o, err := store.Cancel(t.Context(), "buyer-0", ids[0]); err != nil || o.Status != orders.Cancelled {
			t.Errorf("cancel an order of another sale: got %+v, error %v, want it cancelled", o, err)
		}
		if n := len(cancels); n > 0 {
			t.Errorf("cancellations in the locked sale: got %d ended before the other sale's order was cancelled, want none", n)
		}
		for range ids[1:] {
			check.Is(t, check.Receive(t, "a cancel ends", cancels), orders.ErrUnavailable)
		}
		return nil
	}))
	if o, err := store.Cancel(t.Context(), "buyer-1", ids[1]); err != nil || o.Status != orders.Cancelled {
		t.Errorf("cancel after the row is unlocked: got %+v, error %v, want it cancelled", o, err)
	}
	kit.MustBeEmpty(t, kit.InconsistentOrders(t, store.DB))
}

// Cancellations succeed although a busy keeper unlocks the sale's row only for moments.
func TestCancelsDuringARush(t *testing.T) {
	t.Parallel()
	store, ids := stocked(t, servertest.OpenSQL(t, servers.KindReal), 60)
	rush, end := context.WithCancel(t.Context())
	var keeper, buyers sync.WaitGroup
	keeper.Go(func() {
		for rush.Err() == nil {
			check.OK(t, store.Transact(t.Context(), func(tx *gorm.DB) error {
				_, err := store.LockSale(tx, "S")
				time.Sleep(10 * time.Millisecond)
				return err
			}))
			time.Sleep(time.Millisecond)
		}
	})
	for i, id := range ids {
		buyers.Go(func() {
			if o, err := store.Cancel(t.Context(), fmt.Sprint("buyer-", i), id); err != nil || o.Status != orders.Cancelled {
				t.Errorf("cancel %s: got %+v, error %v, want it cancelled", id, o, err)
			}
		})
	}
	buyers.Wait()
	end()
	keeper.Wait()
	kit.MustBeEmpty(t, kit.InconsistentOrders(t, store.DB))
}
