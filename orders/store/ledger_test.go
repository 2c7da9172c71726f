package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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

// hoard inserts n cancelled orders of a buyer of S, with the keys old-0 and so on.
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

// The number of rows that a commit reads under the row lock does not grow with the number of
// orders that one buyer has made before.
func TestCommitDoesNotGrowWithOneBuyersOrders(t *testing.T) {
	t.Parallel()
	full, _ := stocked(t, servertest.OpenSQL(t, servers.KindReal), 3000)
	hoard(t, full, "buyer-15h", 20_000) // sorts between the other buyers
	full.ordersPerBuyer = 500
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			kit.Exec(t, full.DB, "ANALYZE TABLE orders")
		}
		store, rowsRead := onOneConnection(t, full)
		for _, buyers := range []int{1, 30, 499} {
			batch := []inventory.QueuedOrder{kit.QueuedOrder("h", "buyer-15h", "", 1)}
			for i := range buyers {
				batch = append(batch, kit.QueuedOrder(fmt.Sprint(i), fmt.Sprint("buyer-", i), "k", 1))
			}
			var refused orders.Reason
			before := rowsRead()
			err := store.Transact(t.Context(), func(tx *gorm.DB) error {
				locked, err := store.LockSale(tx, "S")
				if err != nil {
					return err
				}
				ledgers, err := store.ReadLedgers(tx, []LockedBatch{{Sale: locked, fence: 1, Orders: batch}})
				refused = ledgers[0].Decide(batch[0]).Refused
				return err
			})
			check.Must(t, err)
			if refused != orders.OrderLimit {
				t.Errorf("order of the buyer with 20,000 orders: got %q, want order_limit", refused)
			}
			if got, want := rowsRead()-before, 600+4*usualOrders*buyers; got > want {
				t.Errorf("rows and index entries read for %d buyers and one with many orders (analyzed: %v): got %d, want at most %d", buyers, analyzed, got, want)
			}
		}
	}
}

// For a buyer with almost OrdersPerBuyer orders, the database sends as little as for a new one.
func TestCommitReadsNoRowsOfFrequentBuyers(t *testing.T) {
	t.Parallel()
	store, _ := stocked(t, servertest.OpenSQL(t, servers.KindReal), 10)
	var batch []inventory.QueuedOrder
	for i := range 10 {
		buyer := strings.Repeat("m", i+1) // hoard makes ids of the length of the name
		hoard(t, store, buyer, 99)
		batch = append(batch, kit.QueuedOrder(fmt.Sprint("new-", i), buyer, "new", 1))
	}
	one, _ := onOneConnection(t, store)
	sent := func() (bytes int64) {
		var name string
		check.Must(t, one.DB.Raw("SHOW SESSION STATUS LIKE 'Bytes_sent'").Row().Scan(&name, &bytes))
		return bytes
	}
	for i, c := range []struct {
		change                  string
		perBuyer, orders, bytes int64
	}{
		{"", 100, 99, 60_000}, // finds out which buyers are frequent
		{"", 100, 99, 5_000},
		{"", 99, 99, 5_000}, // the buyers are full
		{"DELETE FROM orders WHERE buyer = 'm'", 99, 99, 5_000},
		{"UPDATE sales SET created_at = created_at - INTERVAL 1 DAY", 99, 0, 60_000}, // another sale has the SKU
		{"UPDATE orders SET buyer = 'm' WHERE buyer = 'mm'", 100, 99, 60_000},
		{"DELETE FROM orders WHERE buyer = 'm'", 100, 0, 5_000}, // as if a backup had been restored
	} {
		if one.ordersPerBuyer = c.perBuyer; c.change != "" {
			kit.Exec(t, store.DB, c.change)
		}
		before := sent()
		check.Must(t, one.Transact(t.Context(), func(tx *gorm.DB) error {
			locked, err := one.LockSale(tx, "S")
			if err != nil {
				return err
			}
			ledgers, err := one.ReadLedgers(tx, []LockedBatch{{Sale: locked, fence: 1, Orders: batch}})
			if err == nil && ledgers[0].OrderCount["m"] != c.orders {
				t.Errorf("orders of a frequent buyer in batch %d: got %d, want %d", i, ledgers[0].OrderCount["m"], c.orders)
			}
			return err
		}))
		if got := sent() - before; got > c.bytes {
			t.Errorf("bytes that the database sent for batch %d of 10 buyers with 99 orders: got %d, want at most %d", i, got, c.bytes)
		}
	}
}

// A ledger decides as if all orders of its buyers had been read. The batches mix buyers with
// few orders, with many, and with ordersPerBuyer, of two SKUs.
func TestLedgersOfBuyersWithManyOrders(t *testing.T) {
	t.Parallel()
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := openStore(t, sql)
		const limit = 30
		store.ordersPerBuyer = limit
		now := kit.ClockOf(t, store.DB)
		counts := []int{0, 1, 3, 8, 20, limit - 1, limit, limit + 20}
		all := map[string][]orders.Order{}
		for _, sku := range []string{"R", "S"} {
			check.Must(t, check.Err(store.PutSale(t.Context(), kit.Sale(sku, 1000, 12))))
			all[sku] = ordersOf(sku, counts, now)
			check.Must(t, store.DB.Create(all[sku]).Error)
		}
		refused, known := 0, 0
		compare := func(whole, read *orders.Ledger, q inventory.QueuedOrder) {
			got := read.Decide(q)
			if want := whole.Decide(q); kit.DecisionText(got) != kit.DecisionText(want) {
				t.Errorf("order %s by %s with key %q: got %q, want %q", q.OrderID, q.Buyer, q.Key, kit.DecisionText(got), kit.DecisionText(want))
			} else if got.Refused == orders.OrderLimit {
				refused++
			} else if got.Action != orders.Insert {
				known++
			}
		}
		r := check.Rand(t)
		for range 60 {
			batches := []QueuedBatch{{"R", 0, anyBatch(r, "R", counts)}, {"S", 0, anyBatch(r, "S", counts)}}
			check.Must(t, store.Transact(t.Context(), func(tx *gorm.DB) error {
				sales, err := store.lockFree(tx, batches)
				if err != nil {
					return err
				}
				var locked []LockedBatch
				for _, b := range batches {
					locked = append(locked, LockedBatch{Sale: sales[b.SKU], Orders: b.Orders})
				}
				ledgers, err := store.ReadLedgers(tx, locked)
				if err != nil {
					return err
				}
				for i, b := range batches {
					whole := orders.NewLedger(&sales[b.SKU].Sale, now, slices.Clone(all[b.SKU]))
					whole.OrdersPerBuyer = limit
					for _, q := range b.Orders {
						compare(whole, ledgers[i], q)
					}
				}
				return nil
			}))
		}
		if refused == 0 || known == 0 {
			t.Errorf("decisions: got %d refused and %d known, want some of each", refused, known)
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
			o := kit.Row(fmt.Sprintf("%s-%d-%d", sku, b, i), fmt.Sprint("buyer-", b), key, 1, []orders.Status{orders.Cancelled, orders.Paid, orders.PendingPayment, orders.Expired}[i%4], true)
			o.SKU, o.CreatedAt, o.ExpiresAt, o.Currency = sku, now, now, "EUR"
			all = append(all, o)
		}
	}
	return all
}

// anyBatch returns a few orders of ordersOf, and new orders of the same buyers.
func anyBatch(r *rand.Rand, sku string, counts []int) (batch []inventory.QueuedOrder) {
	for range r.IntN(12) {
		b := r.IntN(len(counts))
		i := r.IntN(counts[b] + 3)
		q := kit.QueuedOrder(fmt.Sprintf("%s-%d-%d", sku, b, i), fmt.Sprint("buyer-", b), "", 1)
		if i < counts[b] && i%2 == 0 {
			q.Key = fmt.Sprint("k-", i)
		}
		switch r.IntN(4) {
		case 0:
			q = kit.QueuedPayment("hold-"+q.OrderID, q.Buyer, q.OrderID, "ref", 1)
		case 1, 2: // a new order, perhaps with a known key
			q.OrderID, q.Key = "new-"+q.OrderID, fmt.Sprint("k-", i)
		}
		batch = append(batch, q)
	}
	return batch
}
