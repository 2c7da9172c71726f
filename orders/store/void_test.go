package store

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// Void takes back paid orders of its sale alone, each once, and names the reason why it skips
// another. A claim is recorded even if the order has MaxClaims claims.
func TestVoid(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 6)
		ctx := t.Context()
		for i := range 3 {
			check.Must(t, check.Err(store.Pay(ctx, fmt.Sprint("buyer-", i), ids[i], "ref")))
		}
		check.Must(t, check.Err(store.Cancel(ctx, "buyer-3", ids[3])))
		kit.Exec(t, store.DB, "UPDATE orders SET claims = ?, amount = 7, restored_at = created_at WHERE id = ?", orders.MaxClaims, ids[1])
		kit.Exec(t, store.DB, "UPDATE orders SET status = ? WHERE id = ?", orders.AwaitingPayment, ids[5])
		kit.Exec(t, store.DB, "UPDATE sales SET sold = 4, epoch = 1")
		check.Must(t, check.Err(store.PutSale(ctx, kit.Sale("T", 5, 1))))
		barriers := func() (n int64) {
			check.Must(t, store.DB.Raw("SELECT COALESCE(SUM(barrier), 0) FROM nodes").Scan(&n).Error)
			return n
		}
		reason := orders.Reason("bots")
		voids := func(sku string, list []string, want Voided, mode string) {
			t.Helper()
			before := barriers()
			got, err := store.Void(ctx, sku, list, reason)
			if rests := len(want.Voided) == 0 && !store.sqlite; rests != (barriers() > before) {
				t.Errorf("void of %v: got %d barriers, want one only if nothing is written", list, barriers()-before)
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("void of %v: got %+v, error %v, want %+v", list, got, err, want)
			}
			sale, err := store.Sale(ctx, sku)
			if err != nil || sale.Mode != mode {
				t.Errorf("sale %s: got %+v, error %v, want mode %s", sku, sale, err, mode)
			}
		}
		voids("T", []string{ids[0]}, Voided{[]string{}, []Skipped{{ids[0], "not_found"}}}, orders.ModeGate)
		voids("S", []string{ids[3], ids[4]}, Voided{[]string{}, []Skipped{{ids[3], "cancelled"}, {ids[4], "pending_payment"}}}, orders.ModeGate)
		voids("S", []string{ids[1], "ä", ids[0], ids[1], ids[3], ids[5], "ä"},
			Voided{[]string{ids[1], ids[0]}, []Skipped{{"ä", "not_found"}, {ids[3], "cancelled"}, {ids[5], "pending_payment"}}}, orders.ModeChanging)
		reason = orders.AmountMismatch // a replay of the payment is refused with ErrOrderClosed nevertheless
		voids("S", []string{ids[1], ids[2]}, Voided{[]string{ids[2]}, []Skipped{{ids[1], "already_voided"}}}, orders.ModeChanging)
		check.Is(t, check.Err(store.Void(ctx, "U", ids, "bots")), orders.ErrNotFound)
		rows := kit.RowsOf(t, store.DB)
		if o := rows[ids[1]]; o.Claims != orders.MaxClaims+1 || o.RestoredAt != nil || o.PaidAt == nil || o.ClosedAt == nil {
			t.Errorf("voided order: got %+v, want one claim more, paid_at and closed_at, and no restored_at", o)
		}
		claims, _, err := store.Claims(ctx, 10, "")
		if err != nil || len(claims) != 3 || claims[1].Amount != 7 || claims[1].PaymentRef != "ref" || claims[1].Reason != "bots" {
			t.Errorf("claims: got %+v, error %v, want one for each voided order", claims, err)
		}
		for i := range 3 { // a repeated payment does not pay the order again
			check.Is(t, check.Err(store.Pay(ctx, fmt.Sprint("buyer-", i), ids[i], "ref")), orders.ErrOrderClosed)
			_, decided, err := store.Payment(ctx, fmt.Sprint("buyer-", i), ids[i], "ref")
			if !decided || !errors.Is(err, orders.ErrClaimed) {
				t.Errorf("payment of voided order %d: got decided %t, error %v, want ErrClaimed", i, decided, err)
			}
		}
		check.Is(t, store.MarkOrdersReleased(ctx, "S", 0, ids), nil)
		unreleased, err := store.UnreleasedOrders(ctx, "S", 10)
		if o := kit.RowsOf(t, store.DB)[ids[0]]; err != nil || o.RestoredAt != nil || len(unreleased) != 0 {
			t.Errorf("release by the keeper: got %+v and %+v, error %v, want no voided order in it", o, unreleased, err)
		}
		kit.MustBeEmpty(t, kit.InconsistentOrders(t, store.DB))
		kit.Exec(t, store.DB, "UPDATE sales SET mode = ?", orders.ModeArchived)
		check.Is(t, check.Err(store.Void(ctx, "S", ids, "bots")), orders.ErrUnavailable)
	})
}

// Several calls take the same orders back while they are paid. Each order is taken back by one call
// at most, and has one claim and one payment.
func TestVoidRace(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		const n = 40
		store, ids := stocked(t, sql, n)
		ctx := t.Context()
		for i := range n / 2 {
			check.Must(t, check.Err(store.Pay(ctx, fmt.Sprint("buyer-", i), ids[i], "ref")))
		}
		var voided sync.Map
		var racers sync.WaitGroup
		for range 4 {
			racers.Go(func() {
				for range 3 {
					v, err := store.Void(ctx, "S", ids, "bots")
					check.OK(t, err)
					for _, id := range v.Voided {
						if _, twice := voided.LoadOrStore(id, true); twice {
							t.Errorf("order %s: got two voids, want one", id)
						}
					}
				}
			})
		}
		for i := n / 2; i < n; i++ {
			racers.Go(func() {
				o, err := store.Pay(ctx, fmt.Sprint("buyer-", i), ids[i], "ref")
				if err != nil && !(errors.Is(err, orders.ErrOrderClosed) && o.Voided()) {
					t.Errorf("payment of %s: got %+v, error %v, want it paid or voided", ids[i], o, err)
				}
			})
		}
		racers.Wait()
		claims, _, err := store.Claims(ctx, 2*n, "")
		check.Must(t, err)
		count := 0
		for id, o := range kit.RowsOf(t, store.DB) {
			_, is := voided.Load(id)
			if is {
				count++
			}
			if o.Voided() != is || !is && o.Status != orders.Paid {
				t.Errorf("order: got %+v, want it voided: %t, or paid", o, is)
			}
		}
		if count < n/2 || len(claims) != count {
			t.Errorf("claims: got %d for %d voided orders, want one each, and at least %d voided", len(claims), count, n/2)
		}
		kit.MustBeEmpty(t, kit.InconsistentOrders(t, store.DB))
	})
}
