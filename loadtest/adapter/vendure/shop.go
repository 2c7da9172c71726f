package main

import (
	"context"
	"sync"

	"flashsale/loadtest/adapter"
	"flashsale/loadtest/judge"
)

// shop is a Vendure server with the data of shop.js. The adapter remembers the operator's
// session and which variant a SKU is.
type shop struct {
	about    adapter.About
	url      string // without a trailing slash
	perPage  int    // orders that Vendure returns at once
	admin    *session
	variants sync.Map // SKU → variant
}

// variant is a product variant.
type variant struct{ ID, CreatedAt string }

func (s *shop) variant(sku string) variant {
	v, _ := s.variants.Load(sku)
	got, _ := v.(variant)
	return got
}

// login begins the operator's session, with Vendure's default credentials.
func (s *shop) login(ctx context.Context) error {
	s.admin = newSession(s.url, "admin-api")
	return s.admin.call(ctx, "Login", values{"user": "superadmin", "password": "superadmin"}, nil)
}

func (s *shop) About() adapter.About { return s.about }

// Open creates a product with one variant, whose stock is tracked. If Open is called again, the
// new product replaces the first.
func (s *shop) Open(ctx context.Context, sku string, units int, price int64, _ string) error {
	var product struct{ ID string }
	var created []variant
	err := s.admin.call(ctx, "CreateProduct", values{"sku": sku}, &product)
	if err == nil {
		err = s.admin.call(ctx, "CreateVariant", values{"product": product.ID, "sku": sku, "units": units, "price": price}, &created)
	}
	if err == nil {
		s.variants.Store(sku, created[0])
	}
	return err
}

// Order makes the calls of a storefront for a guest, each order in a session of its own. The
// payment is authorized and not settled, so the order is pending.
func (s *shop) Order(ctx context.Context, sku, buyer, key string, units int) (adapter.Order, error) {
	guest := newSession(s.url, "shop-api")
	err := guest.call(ctx, "AddItem", values{"variant": s.variant(sku).ID, "units": units}, nil)
	if err == nil {
		err = guest.call(ctx, "Checkout", values{"buyer": buyer, "email": buyer + "@example.com", "key": key}, nil)
	}
	var paid struct{ Code string }
	if err == nil {
		err = guest.call(ctx, "Pay", nil, &paid)
	}
	return adapter.Order{ID: paid.Code}, err
}

// placed is a page of placed orders.
type placed struct {
	TotalItems int
	Items      []struct {
		Code    string
		Address struct{ Buyer, Key string }
		Lines   []struct {
			Units   int
			Variant struct{ ID string }
		}
	}
}

// Rows returns the orders that Vendure regards as placed.
func (s *shop) Rows(ctx context.Context, sku string) (rows []judge.Row, err error) {
	v, page := s.variant(sku), placed{TotalItems: 1}
	for skip := 0; err == nil && skip < page.TotalItems; skip += s.perPage {
		page.Items = nil
		err = s.admin.call(ctx, "PlacedOrders", values{"after": v.CreatedAt, "skip": skip, "take": s.perPage}, &page)
		for _, o := range page.Items {
			row := judge.Row{Key: o.Address.Key, Order: judge.Order{ID: o.Code, Buyer: o.Address.Buyer}}
			for _, line := range o.Lines {
				if line.Variant.ID == v.ID {
					row.Quantity += line.Units
				}
			}
			if row.Quantity > 0 {
				rows = append(rows, row)
			}
		}
	}
	return rows, err
}

// Left returns the units that Vendure has not allocated to orders.
func (s *shop) Left(ctx context.Context, sku string) (units int, err error) {
	var stock struct {
		StockLevels []struct{ OnHand, Allocated int }
	}
	err = s.admin.call(ctx, "Stock", values{"variant": s.variant(sku).ID}, &stock)
	for _, at := range stock.StockLevels {
		units += at.OnHand - at.Allocated
	}
	return units, err
}
