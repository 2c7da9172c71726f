package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// Callers report the right amount and another one for the same payment at the same time. The
// payment either pays the order or has a claim, never both, and every later answer is the same.
func TestChargeRace(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		const n = 30
		store, ids := stocked(t, sql, n)
		ctx, wrong := t.Context(), int64(99)
		var racers sync.WaitGroup
		var paid, refused [n]atomic.Int64
		pay := func(i int) {
			switch _, err := store.Pay(ctx, fmt.Sprint("buyer-", i), ids[i], "ref"); {
			case err == nil:
				paid[i].Add(1)
			case errors.Is(err, orders.ErrAmountMismatch):
				refused[i].Add(1)
			default:
				t.Errorf("payment of the right amount: got error %v, want none or ErrAmountMismatch", err)
			}
		}
		overcharge := func(i int) {
			_, err := store.RefuseCharge(ctx, fmt.Sprint("buyer-", i), ids[i], "ref", orders.Charge{Amount: &wrong})
			check.Is(t, err, orders.ErrAmountMismatch)
		}
		for i := range n {
			racers.Go(func() {
				switch i % 3 { // two thirds have an outcome before the race
				case 0:
					overcharge(i)
				case 1:
					pay(i)
				}
				for range 2 {
					racers.Go(func() { pay(i) })
					racers.Go(func() { overcharge(i) })
				}
			})
		}
		racers.Wait()
		claims, _, err := store.Claims(ctx, 2*n, "")
		check.Must(t, err)
		claimed := map[string]bool{}
		for _, c := range claims {
			claimed[c.OrderID] = c.Amount == wrong && c.Reason == orders.AmountMismatch
		}
		rows, count := kit.RowsOf(t, store.DB), 0
		for i, id := range ids {
			if pay(i); claimed[id] {
				count++
			}
			o := rows[id]
			if accepted, refused := paid[i].Load() > 0, refused[i].Load() > 0; o.PaidBy("ref") == claimed[id] || accepted == claimed[id] || refused != claimed[id] || i%3 < 2 && claimed[id] != (i%3 == 0) {
				t.Errorf("order %d, claimed %t: got %+v, accepted %t, refused %t, want one outcome", i, claimed[id], o, accepted, refused)
			}
		}
		if t.Logf("%d of %d payments have a claim", count, n); count != len(claims) {
			t.Errorf("claims: got %+v, want only claims for the reported amount", claims)
		}
		kit.MustBeEmpty(t, kit.InconsistentOrders(t, store.DB))
	})
}

// An order is paid with another reference after a refused charge was read, and before its claim is
// written. The claim is recorded nevertheless. On SQLite this cannot happen.
func TestOrderPaidDuringAClaim(t *testing.T) {
	store, ids := stocked(t, servertest.OpenSQL(t, servers.KindReal), 1)
	wrong := int64(99)
	late := kit.Onto(t, store.WithPool, kit.InterruptedBy(store.DB, "FROM `orders`", func() {
		check.OK(t, check.Err(store.Pay(t.Context(), "buyer-0", ids[0], "another")))
	}))
	check.Is(t, check.Err(late.RefuseCharge(t.Context(), "buyer-0", ids[0], "ref", orders.Charge{Amount: &wrong})), orders.ErrAmountMismatch)
	claims, _, err := store.Claims(t.Context(), 10, "")
	if o := kit.RowsOf(t, store.DB)[ids[0]]; err != nil || len(claims) != 1 || !o.PaidBy("another") || o.Claims != 1 {
		t.Errorf("claims: got %+v of %+v, error %v, want one claim of an order paid with another reference", claims, o, err)
	}
}

// An order with MaxClaims claims refuses every further reference, also while it is pending.
func TestChargesOfOneOrderAreBounded(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 1)
		currency := "USD"
		for i := range orders.MaxClaims + 2 {
			_, err := store.RefuseCharge(t.Context(), "buyer-0", ids[0], fmt.Sprint("ref-", i), orders.Charge{Currency: &currency})
			check.Is(t, err, orders.ErrAmountMismatch)
		}
		claims, _, err := store.Claims(t.Context(), 100, "")
		if err != nil || len(claims) != orders.MaxClaims || claims[0].Currency != "USD" {
			t.Errorf("claims: got %+v, error %v, want %d in USD", claims, err, orders.MaxClaims)
		}
		check.Is(t, check.Err(store.Pay(t.Context(), "buyer-0", ids[0], "right")), orders.ErrOrderClosed)
		_, err = store.RefuseCharge(t.Context(), "buyer-0", orders.NewOrderID("S"), "ref", orders.Charge{Currency: &currency}) // a row may follow
		check.Is(t, err, orders.ErrNotFound)
	})
}
