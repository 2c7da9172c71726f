package adapter_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"time"

	"flashsale/loadtest"
	"flashsale/loadtest/adapter"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

// careful is the shop with a check and an update in one statement.
type careful struct{ shop }

func (s careful) Order(ctx context.Context, sku, buyer, key string, units int) (adapter.Order, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return adapter.Order{}, err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	sold, err := tx.ExecContext(ctx, "UPDATE products SET units = units - ? WHERE sku = ? AND units >= ?", units, sku, units)
	if err != nil {
		return adapter.Order{}, err
	}
	if n, err := sold.RowsAffected(); err != nil || n == 0 {
		return adapter.Order{}, adapter.ErrSoldOut
	}
	id := rand.Text()
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (?, ?, ?, ?, ?)", id, sku, buyer, key, units); err != nil {
		return adapter.Order{}, err
	}
	return adapter.Order{ID: id}, tx.Commit()
}

// crowd returns a payment provider that waits until n buyers have read the number of units, and
// then answers all of them. With n above the stock, a shop that reads first oversells.
func crowd(n int64) (charge func()) {
	var buyers atomic.Int64
	all := make(chan struct{})
	return func() {
		if buyers.Add(1) == n {
			close(all)
		}
		<-all
	}
}

// attack sends 300 orders for 20 units to a shop.
func attack(ctx context.Context, s adapter.Shop, inFlight int, change ...func(*loadtest.Config)) (*report.Report, error) {
	server := httptest.NewServer(adapter.Handler(s))
	defer server.Close()
	c := loadtest.Defaults()
	c.Target, c.Token = server.URL, adapter.Token
	c.Stock, c.InFlight, c.Rate, c.Duration = 20, inFlight, 300, time.Second
	c.Settle, c.Timeout = 50*time.Millisecond, time.Minute
	for _, f := range change {
		f(&c)
	}
	return loadtest.Run(ctx, c)
}

// outcome returns the verdict, and whether units were oversold.
func outcome(v *report.Report) string {
	text := judge.Word(v.ExitCode())
	if slices.ContainsFunc(v.Violations, func(broken judge.Violation) bool { return broken.Name == judge.Oversold }) {
		text += ", oversold"
	}
	return text
}

// The shop reads the units that are left, and then inserts an order. If one order is in flight,
// it keeps its promises. If many are in flight, it sells more units than it has. A shop that
// checks and updates in one statement sells no unit twice.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	naive, fixed := openShop(ctx, "sqlite", ":memory:"), careful{openShop(ctx, "sqlite", ":memory:")}
	defer func() { _, _ = naive.db.Close(), fixed.db.Close() }()
	for _, run := range []struct {
		name     string
		shop     adapter.Shop
		inFlight int
	}{
		{"reads, then inserts, 1 order in flight", naive, 1},
		{"reads, then inserts, 64 orders in flight", shop{naive.db, crowd(21)}, 64},
		{"updates under a condition, 64 orders in flight", fixed, 64},
	} {
		v, err := attack(ctx, run.shop, run.inFlight)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s\n", run.name, outcome(v))
	}
	// Output:
	// reads, then inserts, 1 order in flight: PASS
	// reads, then inserts, 64 orders in flight: FAIL, oversold
	// updates under a condition, 64 orders in flight: PASS
}
