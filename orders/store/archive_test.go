package store

import (
	"context"
	"fmt"
	"maps"
	"reflect"
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
)

const (
	quiet = 90 * 24 * time.Hour
	old   = 100 * 24 * time.Hour // age of the sales in these tests
)

// newArchive opens an empty archive for the store. A step moves two orders.
func newArchive(t testing.TB, store *Store) *Archive {
	t.Helper()
	_, name, _ := strings.Cut(servertest.OpenSQL(t, servers.KindReal), "/")
	return archiveOf(t, store, name)
}

func archiveOf(t testing.TB, store *Store, name string) *Archive {
	t.Helper()
	a, err := store.OpenArchive(t.Context(), name)
	check.Must(t, err)
	a.batch = 2
	return a
}

// endedSale returns a store with a sale S that ended long ago. Of its n orders, every second
// was paid. Each other order has one or two claims.
func endedSale(t testing.TB, n int) *Store {
	t.Helper()
	store, ids := stocked(t, servertest.OpenSQL(t, servers.KindReal), n)
	ended := kit.ClockOf(t, store.DB).Add(-old)
	for i, id := range ids {
		if i%2 == 0 {
			kit.Exec(t, store.DB, "UPDATE orders SET status = 'paid', paid_at = ?, restored_at = ? WHERE id = ?", ended, ended, id)
			continue
		}
		kit.Exec(t, store.DB, "UPDATE orders SET status = 'expired', closed_at = ?, restored_at = ?, claims = ? WHERE id = ?", ended, ended, i%4/2+1, id)
		for ref := range i%4/2 + 1 {
			check.Must(t, store.DB.Create(&orders.Claim{OrderID: id, PaymentRef: fmt.Sprint("ref-", ref), SKU: "S", Buyer: fmt.Sprint("buyer-", i), Currency: "EUR", CreatedAt: ended}).Error)
		}
	}
	kit.Exec(t, store.DB, "UPDATE sales SET sold = ?, mode = 'over', fence = 7, closes_at = ?, updated_at = ?", (n+1)/2, ended, ended)
	return store
}

// allRows returns the orders and claims of the store and of the archives, by key. It fails the
// test if a row exists twice.
func allRows(t testing.TB, db *gorm.DB, archive ...*Archive) (rows map[string]any) {
	t.Helper()
	rows = map[string]any{}
	put := func(key string, row any) {
		if rows[key] != nil {
			t.Errorf("order %s: got two rows, want one", key)
		}
		rows[key] = row
	}
	at := []func(string) string{func(table string) string { return table }}
	for _, a := range archive {
		at = append(at, a.table)
	}
	for _, table := range at {
		var list []orders.Order
		var claims []orders.Claim
		check.Must(t, db.Table(table("orders")).Find(&list).Error)
		check.Must(t, db.Table(table("refunds")).Find(&claims).Error)
		for _, o := range list {
			put(o.ID, o)
		}
		for _, c := range claims {
			put(c.OrderID+" "+c.PaymentRef, c)
		}
	}
	return rows
}

// archived calls Step until the sale is archived, and returns the number of orders moved.
func archived(ctx context.Context, a *Archive) (moved int64, err error) {
	for {
		step, err := a.Step(ctx, "S", quiet)
		moved += step.Orders
		if err != nil || step.Last {
			return moved, err
		}
	}
}

// A process that is killed before or after any commit loses no row, and another process can
// continue.
func TestArchiveSurvivesAKillAtAnyStep(t *testing.T) {
	t.Parallel()
	const n = 7
	for commit, killed := 1, true; killed; commit++ {
		for _, after := range []bool{false, true} {
			store := endedSale(t, n)
			kit.PutSale(t, store, kit.Sale("T", 10, 1)) // another sale
			other := kit.Row("0f000000-0000-7000-8000-000000000000", "buyer-0", "k", 1, orders.Paid, true)
			other.SKU, other.ExpiresAt, other.CreatedAt, other.PaidAt = "T", kit.DecidedAt, kit.DecidedAt, &kit.DecidedAt
			check.Must(t, store.DB.Create(&other).Error)
			all, a := allRows(t, store.DB), newArchive(t, store)
			was, err := store.Sale(t.Context(), "S")
			check.Must(t, err)

			commits := 0
			dies := func(at kit.Fault) error {
				if !at.After {
					commits++
				}
				if killed = commits > commit || commits == commit && at.After == after; killed {
					return kit.ErrFault
				}
				return nil
			}
			_, err = archived(t.Context(), archiveOf(t, kit.Onto(t, store.WithPool, kit.Failing(store.DB, dies)), a.name))
			if killed {
				check.Is(t, err, kit.ErrFault)
			}
			if got := allRows(t, store.DB, a); !reflect.DeepEqual(got, all) {
				t.Errorf("archive killed at commit %d (after it: %t): got rows %v, want %v", commit, after, got, all)
			}
			moved, err := archived(t.Context(), a)
			check.Must(t, err)
			if got := allRows(t, store.DB, a); !reflect.DeepEqual(got, all) || killed && commit == 2 && moved != int64(n-2*map[bool]int{false: 1, true: 2}[after]) {
				t.Errorf("archive killed at commit %d (after it: %t), then continued with %d orders: got rows %v, want %v", commit, after, moved, got, all)
			}
			left := allRows(t, store.DB)
			if len(left) != 1 || left[other.ID] == nil {
				t.Errorf("rows left in the store: got %v, want only %s", left, other.ID)
			}
			var sale orders.Sale
			check.Must(t, store.DB.Table(a.table("sales")).Take(&sale).Error)
			if sale != *was {
				t.Errorf("archived sale: got %+v, want %+v", sale, *was)
			}
			check.Is(t, check.Err(store.Sale(t.Context(), "S")), orders.ErrNotFound)
			check.OK(t, check.Err(store.Sale(t.Context(), "T")))
		}
	}
}

// Operators who archive the same sale at the same time move each order once.
func TestArchiveByTwoOperators(t *testing.T) {
	t.Parallel()
	store := endedSale(t, 41)
	all, a := allRows(t, store.DB), newArchive(t, store)
	var operators sync.WaitGroup
	moved := make([]int64, 3)
	for i := range moved {
		operators.Go(func() {
			var err error
			moved[i], err = archived(t.Context(), a)
			check.OK(t, err)
		})
	}
	operators.Wait()
	if got := allRows(t, store.DB, a); !reflect.DeepEqual(got, all) || moved[0]+moved[1]+moved[2] != 41 || len(allRows(t, store.DB)) > 0 {
		t.Errorf("archive by two operators, moved %v orders: got rows %v, want %v", moved, got, all)
	}
}

// The archive refuses a sale that is not over, or not for long enough.
func TestArchiveRefusesRecentSales(t *testing.T) {
	t.Parallel()
	store := endedSale(t, 3)
	a := newArchive(t, store)
	for _, c := range []struct{ name, change, back, want string }{
		{"an open sale", "UPDATE sales SET mode = 'gate'", "UPDATE sales SET mode = 'over'", "not over"},
		{"a sale in direct mode", "UPDATE sales SET mode = 'direct'", "UPDATE sales SET mode = 'over'", "not over"},
		{"an order that can be paid", "UPDATE orders SET status = 'awaiting_payment' WHERE id LIKE '%1-0000-7000%'", "UPDATE orders SET status = 'expired' WHERE id LIKE '%1-0000-7000%'", "not over"},
		{"an order that is not released", "UPDATE orders SET restored_at = NULL", "UPDATE orders SET restored_at = created_at", "not over"},
		{"the end a month ago", "UPDATE sales SET closes_at = closes_at + INTERVAL 70 DAY", "UPDATE sales SET closes_at = closes_at - INTERVAL 70 DAY", "within the last"},
		{"payment windows that end now", "UPDATE sales SET payment_window_s = 30 * 86400", "UPDATE sales SET payment_window_s = 900", "within the last"},
		{"a change a month ago", "UPDATE sales SET updated_at = updated_at + INTERVAL 70 DAY", "UPDATE sales SET updated_at = closes_at", "within the last"},
		{"a claim a month ago", "UPDATE refunds SET created_at = created_at + INTERVAL 70 DAY", "UPDATE refunds SET created_at = created_at - INTERVAL 70 DAY", "within the last"},
		{"an older sale in the archive", "INSERT INTO " + a.table("sales") + " SELECT * FROM sales", "DELETE FROM " + a.table("sales"), "use another archive"},
		{"another archive", "UPDATE sales SET mode = 'archived'", "UPDATE sales SET mode = 'over'", "another archive than"},
	} {
		kit.Exec(t, store.DB, c.change)
		step, err := a.Step(t.Context(), "S", quiet)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(allRows(t, store.DB)) != 4 {
			t.Errorf("archive of a recent sale, %s: got %+v, error %v, want error %q", c.name, step, err, c.want)
		}
		kit.Exec(t, store.DB, c.back)
	}
	check.Is(t, check.Err(a.Step(t.Context(), "T", quiet)), orders.ErrNotFound)
	check.OK(t, check.Err(archived(t.Context(), a)))
	check.OK(t, check.Err(archived(t.Context(), a))) // the archived order exists
	if _, err := openStore(t, servertest.OpenSQL(t, servers.KindEmbedded)).OpenArchive(t.Context(), "a"); err == nil {
		t.Error("archive on SQLite: got no error")
	}
}

// The archive refuses a sale while the feed of changes is in use, and before the feed has reported
// all orders of the sale. Without a feed, no order has a number, and the sale is archived.
func TestArchiveRefusesUnreportedSales(t *testing.T) {
	t.Parallel()
	store := endedSale(t, 3)
	a := newArchive(t, store)
	refused := func(want string) {
		t.Helper()
		step, err := a.Step(t.Context(), "S", quiet)
		if err == nil || !strings.Contains(err.Error(), want) || len(kit.RowsOf(t, store.DB)) != 3 {
			t.Errorf("archive beside a feed: got %+v, error %v, want error %q", step, err, want)
		}
	}
	number(t, store)
	refused("use --reported then")
	a.Reported = true
	kit.Exec(t, store.DB, "UPDATE orders SET change_no = NULL WHERE status = 'expired'")
	refused("has not reported all orders")
	number(t, store)
	check.OK(t, check.Err(archived(t.Context(), a)))
}

// A sale that is being archived cannot be changed. Afterwards, a new sale can use its SKU, and
// the keys, limits and fence of the old sale do not apply.
func TestSKUOfAnArchivedSale(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), endedSale(t, 5)
	store.ordersPerBuyer = 20
	hoard(t, store, "ann", 20)
	kit.Exec(t, store.DB, "UPDATE sales SET mode = 'gate', closes_at = ?", kit.ClockOf(t, store.DB).Add(time.Hour))
	buys := func(fence int64, n int) orders.Decision {
		t.Helper()
		q := kit.QueuedOrder(orders.NewOrderID("S"), "ann", "old-0", 1)
		if n > 0 {
			q.Key = fmt.Sprint("new-", n)
		}
		decisions, err := store.Commit(ctx, "S", fence, []inventory.QueuedOrder{q})
		check.Must(t, err)
		return decisions[0]
	}
	if d := buys(7, 1); d.Refused != orders.OrderLimit {
		t.Fatalf("order of a full buyer: got %s, want order_limit", kit.DecisionText(d))
	}
	kit.Exec(t, store.DB, "UPDATE sales SET mode = 'over', closes_at = updated_at")
	a := newArchive(t, store)
	check.Must(t, check.Err(a.Step(ctx, "S", quiet)))

	var late orders.Order
	check.Must(t, store.DB.Where("status = ?", orders.Expired).Take(&late).Error)
	for name, err := range map[string]error{
		"put":     check.Err(store.PutSale(ctx, kit.Sale("S", 10, 1))),
		"close":   check.Err(store.EndSale(ctx, "S")),
		"rebuild": check.Err(store.RequestRebuild(ctx, "S")),
		"keep":    check.Err(store.TakeOver(ctx, "S")),
		"refund":  store.RecordClaim(ctx, &late, "late", orders.Closed),
		"commit":  check.Err(store.Commit(ctx, "S", 7, []inventory.QueuedOrder{kit.QueuedOrder("q", "bob", "", 1)})),
	} {
		if check.Is(t, err, orders.ErrUnavailable); t.Failed() {
			t.Fatalf("change of the archived sale, %s: got another error than ErrUnavailable", name)
		}
	}
	together, err := store.CommitTogether(ctx, []QueuedBatch{{"S", 7, []inventory.QueuedOrder{kit.QueuedOrder("q", "bob", "", 1)}}})
	if check.Must(t, err); together[0] != nil {
		t.Errorf("commit of the last keeper: got %+v, want no decisions", together)
	}
	check.Is(t, check.Err(store.Sale(ctx, "S")), orders.ErrNotFound)
	if sales, _, err := store.Sales(ctx); err != nil || len(sales) > 0 {
		t.Errorf("list of sales: got %+v, error %v, want none", sales, err)
	}

	check.Must(t, check.Err(archived(ctx, a)))
	all := allRows(t, store.DB, a)
	kit.PutSale(t, store, kit.Sale("S", 10, 1))
	sale, err := store.TakeOver(ctx, "S")
	check.Must(t, err)
	if d := buys(sale.Fence, 0); d.Action != orders.Insert || d.Order.Status != orders.PendingPayment {
		t.Errorf("order of the same buyer under an old key: got %s, want sold", kit.DecisionText(d))
	}
	check.Is(t, store.RecordClaim(ctx, &late, "late", orders.Closed), orders.ErrNotFound)
	check.Is(t, check.Err(store.Pay(ctx, late.Buyer, late.ID, "late")), orders.ErrNotFound)
	maps.DeleteFunc(all, func(key string, _ any) bool { return allRows(t, store.DB, a)[key] != nil })
	if len(all) > 0 {
		t.Errorf("archived rows: got these rows lost, want none: %v", all)
	}
}

// An archive that lacks a column is refused. The columns of an archive may have another order.
func TestArchiveOfAnotherSchema(t *testing.T) {
	store := endedSale(t, 4)
	a := newArchive(t, store)
	kit.Exec(t, store.DB, "ALTER TABLE "+a.table("orders")+" DROP COLUMN claims")
	err := check.Err(store.OpenArchive(t.Context(), a.name))
	_, add, _ := strings.Cut(fmt.Sprint(err), "then run: ")
	if want := "ALTER TABLE " + a.table("orders") + " ADD COLUMN claims INT NOT NULL DEFAULT 0"; add != want {
		t.Fatalf("open an archive without the column claims: got error %v, want one that ends with %q", err, want)
	}
	kit.Exec(t, store.DB, add+" FIRST")
	before := kit.RowsOf(t, store.DB)
	a = archiveOf(t, store, a.name)
	for last := false; !last; {
		step, err := a.Step(t.Context(), "S", quiet)
		check.Must(t, err)
		last = step.Last
	}
	var after []orders.Order
	check.Must(t, store.DB.Table(a.table("orders")).Find(&after).Error)
	for _, o := range after {
		if !reflect.DeepEqual(o, before[o.ID]) {
			t.Errorf("order %s in the archive: got %+v, want %+v", o.ID, o, before[o.ID])
		}
	}
	if len(after) != len(before) {
		t.Errorf("orders in the archive: got %d, want %d", len(after), len(before))
	}
}
