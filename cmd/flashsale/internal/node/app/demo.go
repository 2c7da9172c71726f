package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale/orders"
)

// The demo's sale.
const (
	demoSKU        = "demo"           // later sales are demo-2, demo-3 and so on
	demoOpensAfter = 20 * time.Second // time to open the page and watch the countdown
	demoOpenFor    = 7 * 24 * time.Hour
)

// demoSale creates a sale if all sales are over, or there is none. If several nodes start
// at once, all of them write the same SKU, and the last write sets the opening time.
func (a *App) demoSale(ctx context.Context) {
	sale, err := a.createDemoSale(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		a.cfg.Log.Warn("creation of the demo sale failed: restart the node to try again", "error", err)
	case sale != nil:
		a.cfg.Log.Info("demo sale created", "sku", sale.SKU, "units", sale.Total, "opens_at", sale.OpensAt.Format(time.RFC3339))
	}
}

// createDemoSale returns the new sale, or nil if there is already a sale that is not over.
func (a *App) createDemoSale(ctx context.Context) (*orders.Sale, error) {
	sales, now, err := a.store.Sales(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, sale := range sales {
		if now.Before(sale.ClosesAt) {
			return nil, nil
		}
		taken[sale.SKU] = true
	}
	sku := demoSKU
	for n := 2; taken[sku]; n++ {
		sku = fmt.Sprint(demoSKU, "-", n)
	}
	sale := orders.Sale{
		SKU: sku, Name: "The Last Thousand", Description: "A thousand pairs, one week. When these are gone there are no more.", Price: 12900, Currency: "EUR", Total: 1000, UnitsPerBuyer: 2,
		OpensAt: now.Add(demoOpensAfter), ClosesAt: now.Add(demoOpenFor), PaymentWindowS: 120,
	}
	_, _, err = a.service.PutSale(ctx, sale)
	if errors.Is(err, orders.ErrUnavailable) { // the sale is stored, and the gate follows
		err = nil
	}
	return &sale, err
}
