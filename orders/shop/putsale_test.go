package shop

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
)

// The total of a sale can be lowered to the units sold, but not below. The gate then refuses
// orders until the total is raised.
func TestTotalIsLoweredToUnitsSold(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := open(t, s, nil)
		put := kit.Sale("S", 10, 5)
		p.put(t, put)
		allBuy(t, p, "S", "k", 4)
		put.Total = 3
		if _, _, err := p.PutSale(t.Context(), put); !errors.Is(err, orders.ErrBelowSold) {
			t.Errorf("total below the units sold: got error %v, want %v", err, orders.ErrBelowSold)
		}
		if got, err := p.store.Sale(t.Context(), "S"); err != nil || got.Total != 10 {
			t.Errorf("sale after a refused change: got %+v, error %v, want a total of 10", got, err)
		}
		put.Total = 4
		p.put(t, put)
		if offer, err := p.Offer(t.Context(), "S"); err != nil || offer.Available != 0 || offer.State(offer.Now, offer.Available) != "sold_out" {
			t.Errorf("offer: got %+v, error %v, want sold out", offer, err)
		}
		put.Total = 5
		p.put(t, put)
		allBuy(t, p, "S", "l", 1)
		p.settledAt(t, 5, 0)
	})
}

// The total is lowered in the database, and the gate accepts more orders before it has the new
// total. The database rejects the orders beyond the new total.
func TestTotalIsLoweredBeforeTheGateHasIt(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		put := kit.Sale("S", 10, 5)
		b := bare.Open(t, s, put)
		b.Reserve(t, "ann", "", 4)
		put.Total = 6
		kit.PutSale(t, b.Store, put)
		b.Reserve(t, "bob", "", 3) // the gate still has a total of 10
		b.Keeper(t, "S").Finish(t)
		b.CheckAudit(t, 4, 2)
		// If the total is lowered below the units reserved, available is negative for a while.
		b.Reserve(t, "eve", "", 2)
		put.Total = 4
		kit.PutSale(t, b.Store, put)
		k := b.Keeper(t, "S")
		if err := b.Gate.SetTerms(t.Context(), "S", 1, put.Terms()); err != nil { // the keeper's first step
			t.Fatalf("set the terms: got error %v, want none", err)
		}
		if view, _ := b.Gate.Inspect(t.Context(), "S"); view.Available != -2 {
			t.Errorf("gate with a lower total: got %d available, want -2", view.Available)
		}
		k.Finish(t)
		b.CheckAudit(t, 4, 0)
	})
}

// Two nodes create the same sale at once, with different totals. One of them creates it, neither
// returns an error, and the gate has the total of the database.
func TestSaleIsCreatedOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		nodes := []*shop{open(t, s, nil), open(t, s, nil)}
		var mu sync.Mutex
		for round := range 3 {
			sku, created := fmt.Sprint("S", round), 0
			var both sync.WaitGroup
			for i, p := range nodes {
				both.Go(func() {
					_, isNew, err := p.PutSale(t.Context(), kit.Sale(sku, int64(10+i), 1))
					mu.Lock()
					defer mu.Unlock()
					if isNew {
						created++
					}
					if err != nil {
						t.Errorf("put %s on node %d: got error %v, want none", sku, i, err)
					}
				})
			}
			both.Wait()
			if created != 1 {
				t.Errorf("sale %s: got it created %d times, want once", sku, created)
			}
			if a := nodes[0].settled(t, sku); a.Available != a.Total {
				t.Errorf("audit: got %+v, want all units available", a)
			}
		}
	})
}

// If no keeper applies a change to the gate in time, PutSale returns ErrOnItsWay. A keeper
// applies the change later.
func TestPutSaleWaitsForTheGate(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p := build(t, s, nil)
		p.gateTimeout = 50 * time.Millisecond
		if _, _, err := p.PutSale(t.Context(), kit.Sale("S", 10, 1)); !errors.Is(err, orders.ErrUnavailable) || !errors.Is(err, orders.ErrOnItsWay) {
			t.Errorf("PutSale without a keeper: got error %v, want %v", err, orders.ErrOnItsWay)
		}
		p.start(t)
		check.Eventually(t, "the gate has the sale", func() bool {
			a, err := p.Audit(t.Context(), "S")
			return err == nil && a.Available == 10 && a.Balanced
		})
	})
}

// An operator requests a rebuild on one node, and the keeper on another node rebuilds the gate.
func TestRebuildByOperator(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		p, sku := apart(t, s)
		allBuy(t, p, sku, "k", 5)
		p.settled(t, sku)
		p.rdb.HIncrBy(t.Context(), "sale:{"+sku+"}", "available", 7)
		if a, err := p.Audit(t.Context(), sku); err != nil || a.Balanced {
			t.Fatalf("audit: got %+v, error %v, want a drift of 7", a, err)
		}
		before, _ := p.gate.Inspect(t.Context(), sku)
		a, err := p.Rebuild(t.Context(), sku)
		if err != nil || !a.Balanced || a.Available != 95 || a.Sold != 5 {
			t.Errorf("audit after the rebuild: got %+v, error %v, want 95 available and 5 sold", a, err)
		}
		if after, _ := p.gate.Inspect(t.Context(), sku); after.Epoch <= before.Epoch || after.Holds != 5 {
			t.Errorf("gate after the rebuild: got %+v before and %+v after, want a new epoch and 5 holds", before, after)
		}
		check.Is(t, check.Err(p.Rebuild(t.Context(), "unknown")), orders.ErrNotFound)
	})
}

// An image URL is an https URL, or a path on the page's own server. A URL is refused if a browser
// could read it as another host or as a script.
func TestImageURL(t *testing.T) {
	for url, ok := range map[string]bool{
		"": true, "/": true, "/s.png": true, "/a/../s.png?v=1#x": true, "https://example.com/s.png": true, "HTTPS://example.com": true,
		"https://" + strings.Repeat("x", 492): true, "https://" + strings.Repeat("x", 493): false,
		"http://example.com/s.png": false, "s.png": false, "//example.com/s.png": false, "///example.com/s.png": false,
		`/\example.com/s.png`: false, `\\example.com`: false, "https:s.png": false, "https:///s.png": false, "https://:443/": false,
		"https://user@example.com/s.png": false, "https://user:password@example.com/s.png": false, "/user@s.png": true,
		"javascript:alert(1)": false, "data:image/png;base64,AA": false, "https://example.com/a b": false, "/ä.png": false, "/a\n": false, "/%zz": false,
	} {
		sale := kit.Sale("S", 1, 1)
		sale.ImageURL = url
		if err := sale.Validate(); (err == nil) != ok {
			t.Errorf("image URL %q: got error %v, want it valid: %t", url, err, ok)
		}
	}
}

// Each sale has a name that buyers see.
func TestNameIsVisible(t *testing.T) {
	for name, ok := range map[string]bool{
		"A": true, "日": true, "7": true, "?": true, "€": true, "😀": true, " a ": true, "\u200ba": true,
		"": false, " ": false, "\t\n": false, "\u00a0\u3000": false, "\u200b": false, "\ufeff": false, "\u202e\u202c": false, "\x00": false, "\u0301": false,
		"\u115f\u3164": false, "\u2800": false, "\U000e0041": false, "\ufe0f": false,
	} {
		sale := kit.Sale("S", 1, 1)
		sale.Name = name
		if err := sale.Validate(); (err == nil) != ok {
			t.Errorf("name %q: got error %v, want it valid: %t", name, err, ok)
		}
	}
}

func TestSaleIsValidated(t *testing.T) {
	good := kit.Sale("S", 10, 1)
	check.Must(t, good.Validate())
	for field, spoil := range map[string]func(*orders.Sale){
		"sku":              func(s *orders.Sale) { s.SKU = "a b" },
		"name":             func(s *orders.Sale) { s.Name = "" },
		"price":            func(s *orders.Sale) { s.Price = -1 },
		"currency":         func(s *orders.Sale) { s.Currency = "eur" },
		"total":            func(s *orders.Sale) { s.Total = orders.MaxTotal + 1 },
		"per_buyer_limit":  func(s *orders.Sale) { s.UnitsPerBuyer = 0 },
		"opens_at":         func(s *orders.Sale) { s.OpensAt = time.Time{} },
		"closes_at":        func(s *orders.Sale) { s.ClosesAt = s.OpensAt },
		"payment_window_s": func(s *orders.Sale) { s.PaymentWindowS = 0 },
		"reserve_on":       func(s *orders.Sale) { s.ReserveOn = "later" },
		"description":      func(s *orders.Sale) { s.Description = strings.Repeat("日", 501) },
		"image_url":        func(s *orders.Sale) { s.ImageURL = "http://example.com/s.png" },
	} {
		bad := good
		spoil(&bad)
		var invalid *orders.InvalidError
		if err := bad.Validate(); !errors.As(err, &invalid) || len(invalid.Fields) != 1 || invalid.Fields[field] == "" {
			t.Errorf("sale with an invalid %s: got error %v, want only that field in the error", field, err)
		}
	}
	var invalid *orders.InvalidError
	if err := (&orders.Sale{}).Validate(); !errors.As(err, &invalid) || len(invalid.Fields) < 6 {
		t.Errorf("empty sale: got error %v, want all invalid fields in the error", err)
	}
}
