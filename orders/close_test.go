package orders

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// stocked is a store with a sale S and so many pending orders of one unit, by
// buyer-0 and so on.
func stocked(t testing.TB, sql string, orders int) (*Store, []string) {
	t.Helper()
	store := openStore(t, sql)
	if _, err := store.PutSale(t.Context(), sale("S", int64(orders)+5, 1)); err != nil {
		t.Fatal(err)
	}
	ids := make([]string, orders)
	now := clockOf(t, store)
	rows := make([]*Order, orders)
	for i := range rows {
		ids[i] = fmt.Sprintf("%08d-0000-7000-8000-000000000000", i)
		rows[i] = &Order{
			ID: ids[i], SKU: "S", Buyer: fmt.Sprint("buyer-", i), Quantity: 1, Currency: "EUR", Status: PendingPayment,
			CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		}
	}
	if orders > 0 {
		if err := store.db.Create(rows).Error; err != nil {
			t.Fatal(err)
		}
	}
	exec(t, store, "UPDATE sales SET sold = ?", orders)
	return store, ids
}

// brokenClosing names what is wrong with how orders of S were closed and paid.
func brokenClosing(t testing.TB, store *Store) (wrong []string) {
	t.Helper()
	var open int64
	for id, o := range rowsOf(t, store) {
		if o.Status.Open() {
			open += o.Quantity
		}
		if o.PaidAt != nil && o.ClosedAt != nil {
			wrong = append(wrong, id+" both paid and closed")
		}
		if (o.Status == Paid) != (o.PaidAt != nil) || o.Status.Closed() != (o.ClosedAt != nil) {
			wrong = append(wrong, fmt.Sprintf("%s is %s, paid at %v, closed at %v", id, o.Status, o.PaidAt, o.ClosedAt))
		}
	}
	sale, err := store.Sale(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if sale.Sold != open {
		wrong = append(wrong, fmt.Sprintf("sold is %d, open orders hold %d", sale.Sold, open))
	}
	return wrong
}

// Pay, cancel and expiry of the same orders at the same instant: exactly one
// of them wins, and whoever was told so has.
func TestCloseRace(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		const n = 60
		store, ids := stocked(t, sql, n)
		now := clockOf(t, store)
		// A third is overdue, a third is about to be, a third has time.
		for i, id := range ids {
			at := map[int]time.Duration{0: -time.Second, 1: 20 * time.Millisecond, 2: time.Hour}[i%3]
			exec(t, store, "UPDATE orders SET expires_at = ? WHERE id = ?", now.Add(at), id)
		}
		var paid, cancelled [n]atomic.Int64
		var racers sync.WaitGroup
		ctx := t.Context()
		order := rand.Perm(n)
		for range 3 {
			racers.Go(func() {
				for _, i := range order {
					switch o, err := store.Pay(ctx, fmt.Sprint("buyer-", i), ids[i], "ref"); {
					case err == nil && o.Status == Paid:
						paid[i].Add(1)
					case !errors.Is(err, ErrOrderClosed):
						t.Errorf("pay %d: %+v, %v", i, o, err)
					}
				}
			})
			racers.Go(func() {
				for _, i := range order {
					switch o, err := store.Cancel(ctx, fmt.Sprint("buyer-", i), ids[i]); {
					case err == nil && o.Status == Cancelled:
						cancelled[i].Add(1)
					case !errors.Is(err, ErrOrderClosed) && !errors.Is(err, ErrAlreadyPaid):
						t.Errorf("cancel %d: %+v, %v", i, o, err)
					}
				}
			})
			racers.Go(func() {
				for range 5 {
					if _, err := store.Expire(ctx); err != nil {
						t.Errorf("expire: %v", err)
					}
				}
			})
		}
		racers.Wait()

		rows, ends := rowsOf(t, store), map[Status]int{}
		for i, id := range ids {
			status := rows[id].Status
			ends[status]++
			// Repeated calls find the same end: all three or none.
			if p, c := paid[i].Load(), cancelled[i].Load(); p > 0 != (status == Paid) || c > 0 != (status == Cancelled) || p > 0 && c > 0 {
				t.Errorf("order %d is %s; paid %d times, cancelled %d times", i, status, p, c)
			}
		}
		if wrong := brokenClosing(t, store); len(wrong) > 0 {
			t.Error(wrong)
		}
		t.Logf("ends: %v", ends)
	})
}

// An order is paid after a transaction that is to close it has read it, and
// before it writes: the condition finds it paid, and its units stay sold.
// (SQLite has one writer at a time, so there is no such moment.)
func TestPaidWhileBeingClosed(t *testing.T) {
	store, ids := stocked(t, servertest.OpenSQL(t, servers.KindReal), 3)
	overdue(t, store, ids[1:]...)
	pay := func() {
		exec(t, store, "UPDATE orders SET status = ?, paid_at = UTC_TIMESTAMP(3) WHERE id = ?", Paid, ids[1])
	}
	late := interruptedAt(t, store, "FROM `orders`", pay)
	if n, err := late.Expire(t.Context()); err != nil || n["S"] != 1 {
		t.Errorf("expired %v, %v", n, err)
	}
	if rows := rowsOf(t, store); rows[ids[1]].Status != Paid || rows[ids[2]].Status != Expired {
		t.Errorf("%+v", rows)
	}
	if wrong := brokenClosing(t, store); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// An update without the condition on the status lets two ends win, and the
// check of the race says so.
func TestCloseNeedsItsCondition(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 2)
		ctx := t.Context()
		for i, id := range ids {
			// Read, …
			o, err := store.OrderOf(ctx, fmt.Sprint("buyer-", i), id)
			if err != nil || o.Status != PendingPayment {
				t.Fatal(o, err)
			}
		}
		if _, err := store.Pay(ctx, "buyer-0", ids[0], "ref"); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Cancel(ctx, "buyer-1", ids[1]); err != nil {
			t.Fatal(err)
		}
		if wrong := brokenClosing(t, store); len(wrong) > 0 {
			t.Fatal(wrong)
		}
		for _, id := range ids { // … then written.
			exec(t, store, "UPDATE orders SET status = ?, closed_at = ? WHERE id = ?", Expired, time.Now().UTC(), id)
			exec(t, store, "UPDATE sales SET sold = sold - 1 WHERE sku = 'S' AND sold > 0")
			if id == ids[0] && len(brokenClosing(t, store)) == 0 {
				t.Error("a paid order that was closed is not seen")
			}
		}
	})
}

// After expires_at it is too late to pay, though no sweeper has come by, and
// the order's units are free from that call on.
func TestPayTooLate(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 1)
		overdue(t, store, ids...)
		for range 2 {
			if _, err := store.Pay(t.Context(), "buyer-0", ids[0], "ref"); !errors.Is(err, ErrOrderClosed) {
				t.Errorf("pay: %v", err)
			}
		}
		if o := rowsOf(t, store)[ids[0]]; o.Status != Expired || o.PaymentRef != nil {
			t.Errorf("row: %+v", o)
		}
		if wrong := brokenClosing(t, store); len(wrong) > 0 {
			t.Error(wrong)
		}
	})
}

// The order becomes a row just after the payment's update found none: it can
// be paid, and must not be answered as closed.
func TestPayOfAnOrderThatJustBecameDurable(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 1)
		id := ids[0]
		exec(t, store, "UPDATE orders SET id = 'not yet'")
		late := interrupted(t, store, func() { exec(t, store, "UPDATE orders SET id = ?", id) })
		if o, err := late.Pay(t.Context(), "buyer-0", id, "ref"); err != nil || o.Status != Paid {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

func TestCloseReplays(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 3)
		ctx := t.Context()
		overdue(t, store, ids[2])
		if n, err := store.Expire(ctx); err != nil || n["S"] != 1 {
			t.Fatal(n, err)
		}
		pay := func(i int, ref string) (*Order, error) { return store.Pay(ctx, fmt.Sprint("buyer-", i), ids[i], ref) }
		cancel := func(i int) (*Order, error) { return store.Cancel(ctx, fmt.Sprint("buyer-", i), ids[i]) }
		for _, test := range []struct {
			what string
			do   func() (*Order, error)
			want Status
			err  error
		}{
			{"pay", func() (*Order, error) { return pay(0, "ref") }, Paid, nil},
			{"pay again", func() (*Order, error) { return pay(0, "ref") }, Paid, nil},
			{"pay again with another ref", func() (*Order, error) { return pay(0, "other") }, Paid, ErrAlreadyPaid},
			{"cancel what is paid", func() (*Order, error) { return cancel(0) }, Paid, ErrAlreadyPaid},
			{"cancel", func() (*Order, error) { return cancel(1) }, Cancelled, nil},
			{"cancel again", func() (*Order, error) { return cancel(1) }, Cancelled, nil},
			{"pay what is cancelled", func() (*Order, error) { return pay(1, "ref") }, Cancelled, ErrOrderClosed},
			{"pay what has expired", func() (*Order, error) { return pay(2, "ref") }, Expired, ErrOrderClosed},
			{"cancel what has expired", func() (*Order, error) { return cancel(2) }, Expired, ErrOrderClosed},
		} {
			o, err := test.do()
			if !errors.Is(err, test.err) || o == nil || o.Status != test.want {
				t.Errorf("%s: %+v, %v", test.what, o, err)
			}
		}
		before := rowsOf(t, store)
		for i := range ids { // somebody else's
			if o, err := store.Pay(ctx, "eve", ids[i], "ref"); o != nil || !errors.Is(err, ErrNotFound) {
				t.Errorf("eve pays %d: %+v, %v", i, o, err)
			}
			if o, err := store.Cancel(ctx, "eve", ids[i]); o != nil || !errors.Is(err, ErrNotFound) {
				t.Errorf("eve cancels %d: %+v, %v", i, o, err)
			}
		}
		if !reflect.DeepEqual(before, rowsOf(t, store)) {
			t.Error("eve changed something")
		}
		if wrong := brokenClosing(t, store); len(wrong) > 0 {
			t.Error(wrong)
		}
	})
}

// Expiry works through any number of overdue orders in bounded batches.
func TestExpireInBatches(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, expireBatch+50)
		overdue(t, store, ids[:expireBatch+40]...)
		var closed []int64
		for {
			n, err := store.Expire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n["S"] == 0 {
				break
			}
			closed = append(closed, n["S"])
		}
		if fmt.Sprint(closed) != fmt.Sprint([]int64{expireBatch, 40}) {
			t.Errorf("closed %v", closed)
		}
		if wrong := brokenClosing(t, store); len(wrong) > 0 {
			t.Error(wrong)
		}
	})
}
