package store

import (
	"fmt"
	"math/rand/v2"
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

// hoard gives a buyer n cancelled orders of S, under keys old-0 and so on.
func hoard(t testing.TB, store *Store, buyer string, n int) {
	t.Helper()
	now := kit.ClockOf(t, store.DB)
	var rows []*orders.Order
	for i := range n {
		key := fmt.Sprint("old-", i)
		rows = append(rows, &orders.Order{
			ID: fmt.Sprintf("%08d-%04x-7000-9000-000000000000", i, len(buyer)), SKU: "S", Buyer: buyer, Quantity: 1, Currency: "EUR",
			Status: orders.Cancelled, IdempotencyKey: &key, RequestHash: "h", CreatedAt: now, ExpiresAt: now, ClosedAt: &now, RestoredAt: &now,
		})
	}
	check.Must(t, store.DB.CreateInBatches(rows, 50).Error)
}

// What a commit reads under the sale's row lock does not grow with what one of its
// buyers has made before.
func TestCommitDoesNotGrowWithOneBuyersOrders(t *testing.T) {
	t.Parallel()
	full, _ := stocked(t, servertest.OpenSQL(t, servers.KindReal), 3000)
	hoard(t, full, "buyer-15h", 20_000) // in the middle of the others
	full.ordersPerBuyer = 500
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			kit.Exec(t, full.DB, "ANALYZE TABLE orders")
		}
		store, rowsRead := onOneConnection(t, full)
		for _, buyers := range []int{1, 30, 499} {
			batch := []inventory.Queued{kit.QueuedOrder("h", "buyer-15h", "", 1)}
			for i := range buyers {
				batch = append(batch, kit.QueuedOrder(fmt.Sprint(i), fmt.Sprint("buyer-", i), "k", 1))
			}
			var said orders.Reason
			before := rowsRead()
			err := store.Transact(t.Context(), func(tx *gorm.DB) error {
				locked, err := store.LockSale(tx, "S")
				if err != nil {
					return err
				}
				ledgers, err := store.ReadLedgers(tx, []SaleBatch{{Sale: locked, fence: 1, Orders: batch}})
				said = ledgers[0].Decide(batch[0]).Refused
				return err
			})
			check.Must(t, err)
			if said != "buyer_limit" {
				t.Errorf("the buyer with 20,000 orders receives %q", said)
			}
			if n := rowsRead() - before; n > 600+4*usualOrders*buyers {
				t.Errorf("a batch of %d buyers and one with many orders (analyzed: %v) reads %d rows or entries of indexes", buyers, analyzed, n)
			}
		}
	}
}

// However a ledger is read, it is as if all orders had been: buyers with many
// orders, with as many as allowed, and with few, in one batch and of two SKUs.
func TestLedgersOfBuyersWithManyOrders(t *testing.T) {
	t.Parallel()
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := openStore(t, sql)
		const most = 30
		store.ordersPerBuyer = most
		now := kit.ClockOf(t, store.DB)
		counts := []int{0, 1, 3, 8, 20, most - 1, most, most + 20}
		all := map[string][]orders.Order{}
		for _, sku := range []string{"R", "S"} {
			check.Must(t, check.Err(store.PutSale(t.Context(), kit.Sale(sku, 1000, 1000))))
			all[sku] = ordersOf(sku, counts, now)
			check.Must(t, store.DB.Create(all[sku]).Error)
		}
		refused, known := 0, 0
		compare := func(whole, read *orders.Ledger, q inventory.Queued) {
			got := read.Decide(q)
			if want := whole.Decide(q); kit.Said(got) != kit.Said(want) {
				t.Errorf("%s by %s under %q: %q, and with all orders read %q", q.OrderID, q.Buyer, q.Key, kit.Said(got), kit.Said(want))
			} else if got.Refused == "buyer_limit" {
				refused++
			} else if got.Action != orders.Insert {
				known++
			}
		}
		r := check.Rand(t)
		for range 60 {
			batches := []SaleOrders{{"R", 0, anyBatch(r, "R", counts)}, {"S", 0, anyBatch(r, "S", counts)}}
			check.Must(t, store.Transact(t.Context(), func(tx *gorm.DB) error {
				sales, err := store.lockFree(tx, batches)
				if err != nil {
					return err
				}
				var locked []SaleBatch
				for _, b := range batches {
					locked = append(locked, SaleBatch{Sale: sales[b.SKU], Orders: b.Orders})
				}
				ledgers, err := store.ReadLedgers(tx, locked)
				if err != nil {
					return err
				}
				for i, b := range batches {
					whole := orders.NewLedger(&sales[b.SKU].Sale, now, all[b.SKU])
					whole.OrdersPerBuyer = most
					for _, q := range b.Orders {
						compare(whole, ledgers[i], q)
					}
				}
				return nil
			}))
		}
		if refused == 0 || known == 0 {
			t.Errorf("%d refused, %d known: that was no test", refused, known)
		}
	})
}

// ordersOf returns counts[i] orders of buyer-i. Every second order has a key.
func ordersOf(sku string, counts []int, now time.Time) (all []orders.Order) {
	for b, n := range counts {
		for i := range n {
			key := ""
			if i%2 == 0 {
				key = fmt.Sprint("k-", i)
			}
			o := kit.Row(fmt.Sprintf("%s-%d-%d", sku, b, i), fmt.Sprint("buyer-", b), key, 1, []orders.Status{orders.Cancelled, orders.Paid, orders.PendingPayment}[i%3], true)
			o.SKU, o.CreatedAt, o.ExpiresAt, o.Currency = sku, now, now, "EUR"
			all = append(all, o)
		}
	}
	return all
}

// anyBatch returns a few orders of ordersOf, and new orders of the same buyers.
func anyBatch(r *rand.Rand, sku string, counts []int) (batch []inventory.Queued) {
	for range r.IntN(12) {
		b := r.IntN(len(counts))
		i := r.IntN(counts[b] + 3)
		q := kit.QueuedOrder(fmt.Sprintf("%s-%d-%d", sku, b, i), fmt.Sprint("buyer-", b), "", 1)
		if i < counts[b] && i%2 == 0 {
			q.Key = fmt.Sprint("k-", i)
		}
		if r.IntN(2) == 0 { // another order, maybe under a known key
			q.OrderID, q.Key = "new-"+q.OrderID, fmt.Sprint("k-", i)
		}
		batch = append(batch, q)
	}
	return batch
}
