package orders

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale/inventory"
)

// crossing is how long an operator's call waits for the keeper to bring a
// change to the gate.
const crossing = 2 * time.Second

// PutSale creates or changes a sale and waits until the gate has it. Errors:
// those of Store.PutSale; ErrUnavailable when the keeper takes too long: the
// change stands and is on its way.
func (s *Service) PutSale(ctx context.Context, sale Sale) (Offer, bool, error) {
	created, err := s.store.PutSale(ctx, sale)
	if err != nil {
		return Offer{}, false, err
	}
	if err := s.catalog.refresh(ctx); err != nil { // each node reads it again within a second
		return Offer{}, false, onItsWay(sale.SKU, err)
	}
	// A new sale needs a keeper, and so does one that is opened again.
	s.reassign()
	s.vacated(ctx)
	if s.catalog.direct(sale.SKU) { // what the database has is all there is
		offer, err := s.Offer(ctx, sale.SKU)
		return offer, created, err
	}
	err = s.untilGate(ctx, sale.SKU, func(ctx context.Context, g inventory.Glance) bool {
		// What the sale is now: another operator may have changed it since.
		now, err := s.store.Sale(ctx, sale.SKU)
		return err == nil && g.Epoch == now.Epoch && g.Terms.Equal(now.Terms())
	})
	if err != nil {
		return Offer{}, false, err
	}
	offer, err := s.Offer(ctx, sale.SKU)
	return offer, created, err
}

// Rebuild has the gate of sku rebuilt from the database, and waits for it.
func (s *Service) Rebuild(ctx context.Context, sku string) (Audit, error) {
	if !isSKU(sku) {
		return Audit{}, ErrNotFound
	}
	if s.cfg.PerOrder { // there is no gate
		return s.Audit(ctx, sku)
	}
	epoch, err := s.store.AskRebuild(ctx, sku)
	if err != nil {
		return Audit{}, err
	}
	err = s.untilGate(ctx, sku, func(_ context.Context, g inventory.Glance) bool { return g.Epoch > epoch })
	if err != nil {
		return Audit{}, err
	}
	return s.Audit(ctx, sku)
}

// untilGate tells sku's keeper, wherever it is, and waits until the gate is
// open and as wanted.
func (s *Service) untilGate(ctx context.Context, sku string, wanted func(context.Context, inventory.Glance) bool) error {
	ctx, cancel := context.WithTimeout(ctx, crossing)
	defer cancel()
	s.changed(ctx, sku)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		glances, err := s.gate.Glance(ctx, sku)
		if err == nil && glances[0].Open && wanted(ctx, glances[0]) {
			return nil
		}
		select {
		case <-ctx.Done():
			return onItsWay(sku, err)
		case <-tick.C:
		}
	}
}

// onItsWay is what an operator hears of a change that the database has and the
// gate may not have yet.
func onItsWay(sku string, err error) error {
	return errors.Join(fmt.Errorf("%w: the change of %s is on its way to the gate", ErrUnavailable, sku), err)
}

// Audit reads the law of conservation of sku.
func (s *Service) Audit(ctx context.Context, sku string) (Audit, error) {
	if !isSKU(sku) {
		return Audit{}, ErrNotFound
	}
	if s.catalog.direct(sku) { // what a gate may have is not for sale
		return s.store.Audit(ctx, noGate{store: s.store}, sku)
	}
	return s.store.Audit(ctx, s.gate, sku)
}

// Offer returns one sale with what is left of it.
func (s *Service) Offer(ctx context.Context, sku string) (Offer, error) {
	sale, err := s.catalog.sale(ctx, sku)
	if err != nil {
		return Offer{}, err
	}
	offers, err := s.offers(ctx, []Sale{*sale})
	if err != nil {
		return Offer{}, err
	}
	return offers[0], nil
}

// Offers returns all sales that are of interest, the newest first.
func (s *Service) Offers(ctx context.Context) ([]Offer, error) {
	sales, _, err := s.catalog.sales(ctx)
	if err != nil {
		return nil, err
	}
	return s.offers(ctx, sales)
}

func (s *Service) offers(ctx context.Context, sales []Sale) ([]Offer, error) {
	_, now, err := s.catalog.sales(ctx)
	if err != nil {
		return nil, err
	}
	offers := make([]Offer, len(sales))
	var skus []string
	var gated []*Offer
	for i := range sales {
		offers[i] = Offer{Sale: sales[i], Available: sales[i].Total - sales[i].Sold, Now: now}
		if sales[i].Mode != modeDirect && !s.link.isLost() {
			skus, gated = append(skus, sales[i].SKU), append(gated, &offers[i])
		}
	}
	glances, err := s.gate.Glance(ctx, skus...)
	if err != nil {
		return nil, errors.Join(ErrUnavailable, err)
	}
	for i, offer := range gated {
		if glances[i].Exists {
			offer.Available, offer.Queued = glances[i].Available, glances[i].Queued
		}
	}
	return offers, nil
}

// OrdersOfSale reads a page of all rows of sku.
func (s *Service) OrdersOfSale(ctx context.Context, sku string, limit int, cursor string) ([]Order, string, error) {
	if _, err := s.catalog.sale(ctx, sku); err != nil {
		return nil, "", err
	}
	return s.store.OrdersOfSale(ctx, sku, limit, cursor)
}

// Refunds reads a page of what is owed for payments of closed orders.
func (s *Service) Refunds(ctx context.Context, limit int, cursor string) ([]Refund, string, error) {
	return s.store.Refunds(ctx, limit, cursor)
}

// OrdersOf reads a page of buyer's orders.
func (s *Service) OrdersOf(ctx context.Context, buyer string, limit int, cursor string) ([]Order, string, error) {
	return s.store.OrdersOfBuyer(ctx, buyer, limit, cursor)
}
