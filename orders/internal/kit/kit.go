// Package kit contains helpers for the tests of orders, store and shop. It does not import
// store or shop, so internal tests of these packages can import it.
package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"flashsale/inventory"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
)

// MustBeEmpty fails the test if wrong is not empty.
func MustBeEmpty(t testing.TB, wrong []string) {
	t.Helper()
	if len(wrong) > 0 {
		t.Fatalf("got violations %q, want none", wrong)
	}
}

// PutSale calls PutSale and fails the test on an error.
func PutSale(t testing.TB, store interface {
	PutSale(context.Context, orders.Sale, ...orders.Precondition) (orders.Sale, error)
}, s orders.Sale) {
	t.Helper()
	_, err := store.PutSale(t.Context(), s)
	check.Must(t, err)
}

// RowsOf returns all orders in the database, by id.
func RowsOf(t testing.TB, db *gorm.DB) map[string]orders.Order {
	t.Helper()
	var list []orders.Order
	check.Must(t, db.WithContext(t.Context()).Find(&list).Error)
	rows := map[string]orders.Order{}
	for _, o := range list {
		rows[o.ID] = o
	}
	return rows
}

// OpenUnits returns the number of units in open orders.
func OpenUnits(rows map[string]orders.Order) (units int64) {
	for _, o := range rows {
		if o.Status.CountsAsSold() {
			units += o.Quantity
		}
	}
	return units
}

// Exec runs a statement that the product does not know of.
func Exec(t testing.TB, db *gorm.DB, query string, args ...any) {
	t.Helper()
	check.Must(t, db.WithContext(t.Context()).Exec(query, args...).Error)
}

// ClockOf returns the database's time.
func ClockOf(t testing.TB, db *gorm.DB) time.Time {
	t.Helper()
	if db.Name() == "sqlite" {
		return time.Now().UTC().Truncate(time.Millisecond)
	}
	var now time.Time
	check.Must(t, db.WithContext(t.Context()).Raw("SELECT UTC_TIMESTAMP(3)").Row().Scan(&now))
	return now
}

// MakeOverdue moves expires_at of these orders into the past.
func MakeOverdue(t testing.TB, db *gorm.DB, ids ...string) {
	t.Helper()
	Exec(t, db, "UPDATE orders SET expires_at = ? WHERE id IN ?", ClockOf(t, db).Add(-time.Second), ids)
}

// InconsistentOrders describes each order whose status contradicts its paid_at and closed_at, and
// the column sold of the sale S if it is not the number of units in open orders.
func InconsistentOrders(t testing.TB, db *gorm.DB) (wrong []string) {
	t.Helper()
	rows := RowsOf(t, db)
	for id, o := range rows {
		if o.PaidAt != nil && o.ClosedAt != nil && !o.Voided() {
			wrong = append(wrong, id+" is both paid and closed")
		}
		if (o.Status == orders.Paid || o.Voided()) != (o.PaidAt != nil) || o.Status.Closed() != (o.ClosedAt != nil) {
			wrong = append(wrong, fmt.Sprintf("%s is %s, paid at %v, closed at %v", id, o.Status, o.PaidAt, o.ClosedAt))
		}
	}
	var sale orders.Sale
	check.Must(t, db.Where("sku = ?", "S").Take(&sale).Error)
	if open := OpenUnits(rows); sale.Sold != open {
		wrong = append(wrong, fmt.Sprintf("sold is %d, open orders hold %d", sale.Sold, open))
	}
	return wrong
}

// DecidedAt is the time of the decisions in tests.
var DecidedAt = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// DecisionText returns a short text for a decision. Tests compare decisions by it.
func DecisionText(d orders.Decision) string {
	var words []string
	switch {
	case d.Action == orders.Insert && d.Order.Status == orders.Rejected:
		words = append(words, "rejected", string(d.Order.Reason))
	case d.Action == orders.Insert:
		words = append(words, "sold")
	case d.Action == orders.MarkPaid:
		words = append(words, "pays", d.Order.ID)
	case d.Order == nil:
		words = append(words, "is nothing")
	default:
		words = append(words, "is", d.Order.ID)
	}
	if d.Hold == orders.ReleaseHold {
		words = append(words, "release")
	}
	if d.Hold == orders.DropHoldAgain {
		words = append(words, "reconfirm")
	}
	if d.Refused != "" {
		words = append(words, string(d.Refused))
	}
	if d.Claim != nil {
		words = append(words, "claim", string(d.Claim.Reason))
	}
	return strings.Join(words, " ")
}

// Row returns an order of the sale S. Without a key, key is "".
func Row(id, buyer, key string, quantity int64, status orders.Status, released bool) orders.Order {
	o := orders.Order{ID: id, SKU: "S", Buyer: buyer, Quantity: quantity, Status: status, RequestHash: "h"}
	if key != "" {
		o.IdempotencyKey = &key
	}
	if released {
		o.RestoredAt = &DecidedAt
	}
	return o
}

// QueuedOrder returns an order as it is in the queue.
func QueuedOrder(id, buyer, key string, quantity int64) inventory.QueuedOrder {
	return inventory.QueuedOrder{OrderID: id, Buyer: buyer, Key: key, Quantity: quantity, Fingerprint: "h", AcceptedAt: DecidedAt}
}

// QueuedPayment returns an attempt of a Payment as it is in the queue.
func QueuedPayment(hold, buyer, order, ref string, quantity int64) inventory.QueuedOrder {
	q := QueuedOrder(hold, buyer, ref, quantity)
	q.PaysOrder = order
	return q
}

// Sale returns a sale that is open now.
func Sale(sku string, total, perBuyer int64) orders.Sale {
	now := time.Now().UTC().Truncate(time.Millisecond)
	return orders.Sale{
		SKU: sku, Name: "A thing", Price: 1999, Currency: "EUR", Total: total, UnitsPerBuyer: perBuyer,
		OpensAt: now.Add(-time.Hour), ClosesAt: now.Add(time.Hour), PaymentWindowS: 900, ReserveOn: orders.OnOrder,
	}
}

// OpenRedis connects to a Redis until the test ends.
func OpenRedis(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	options, err := redis.ParseURL(url)
	check.Must(t, err)
	options.ContextTimeoutEnabled = true
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// SameInAnyOrder reports whether the two slices have the same elements.
func SameInAnyOrder(got, want []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
}

// InsertPendingOrders inserts n pending orders of the sale S, of one unit each, by buyer-0 and
// so on. The database has no other orders.
func InsertPendingOrders(t testing.TB, db *gorm.DB, n int) (ids []string) {
	t.Helper()
	now := ClockOf(t, db)
	ids = make([]string, n)
	rows := make([]*orders.Order, n)
	for i := range rows {
		ids[i] = fmt.Sprintf("%08d-0000-7000-8000-000000000000", i)
		rows[i] = &orders.Order{
			ID: ids[i], SKU: "S", Buyer: fmt.Sprint("buyer-", i), Quantity: 1, Currency: "EUR", Status: orders.PendingPayment,
			CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		}
	}
	check.Must(t, db.CreateInBatches(rows, 50).Error) // small batches, because SQLite's driver searches the whole batch for each value
	Exec(t, db, "UPDATE sales SET sold = ?", n)
	return ids
}

// ModelDecision is a model of Ledger.Decide that searches all orders for each decision.
func ModelDecision(sale *orders.Sale, all []orders.Order, q inventory.QueuedOrder) string {
	var sold, mine int64
	for _, o := range all {
		if o.ID == q.OrderID {
			switch {
			case o.Status.Closed():
				return "is " + o.ID + " release"
			case o.Status == orders.Paid && o.RestoredAt != nil:
				return "is " + o.ID + " reconfirm"
			}
			return "is " + o.ID
		}
		if o.Status == orders.Paid || o.Status == orders.PendingPayment {
			sold += o.Quantity
			if o.Buyer == q.Buyer {
				mine += o.Quantity
			}
		}
	}
	for _, o := range all {
		if q.Key != "" && o.IdempotencyKey != nil && *o.IdempotencyKey == q.Key && o.Buyer == q.Buyer {
			if o.RequestHash != q.Fingerprint {
				return "is " + o.ID + " release idempotency_mismatch"
			}
			return "is " + o.ID + " release"
		}
	}
	switch {
	case mine+q.Quantity > sale.UnitsPerBuyer:
		return "rejected buyer_limit"
	case sold+q.Quantity > sale.Total:
		return "rejected sold_out"
	}
	return "sold"
}
