package shop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/store"
)

// PutSale creates or changes a sale, and waits until the gate has the change. The second
// result reports whether the sale is new.
//
// Errors: the errors of Store.PutSale; ErrUnavailable with ErrOnItsWay if the database has the
// change but the gate did not have it within 2 s. The keeper will still apply it.
func (s *Service) PutSale(ctx context.Context, sale orders.Sale, conditions ...orders.Precondition) (orders.Offer, bool, error) {
	sale, err := s.store.PutSale(ctx, sale, conditions...)
	if err != nil {
		return orders.Offer{}, false, err
	}
	offer, err := s.changed(ctx, sale)
	return offer, err == nil && sale.UpdatedAt.Equal(sale.CreatedAt), err
}

// EndSale ends a sale now, and waits until the gate refuses orders. Orders that the gate has
// accepted can still be paid. Errors: ErrNotFound, the errors of Store.EndSale, ErrUnavailable as in
// PutSale.
func (s *Service) EndSale(ctx context.Context, sku string, conditions ...orders.Precondition) (orders.Offer, error) {
	if !orders.IsSKU(sku) {
		return orders.Offer{}, orders.ErrNotFound
	}
	sale, err := s.store.EndSale(ctx, sku, conditions...)
	if err != nil {
		return orders.Offer{}, err
	}
	return s.changed(ctx, sale)
}

// changed waits until the gate has an operator's change, and returns the offer.
func (s *Service) changed(ctx context.Context, sale orders.Sale) (orders.Offer, error) {
	if err := s.catalog.Refresh(ctx); err != nil { // the other nodes read the change within a second
		return orders.Offer{}, onItsWay(sale.SKU, err)
	}
	// A new sale, or a sale that is opened again, may have no keeper yet.
	s.controller.RequestKeeper(ctx, sale.SKU)
	if sale.HasGate() {
		err := s.untilGate(ctx, sale.SKU, func(ctx context.Context, g inventory.Summary) bool {
			// Compare with the current row, which another operator may have changed.
			now, err := s.store.Sale(ctx, sale.SKU)
			if err != nil || g.Epoch != now.Epoch || now.Mode == orders.ModeChanging || !g.Terms.Equal(now.Terms()) {
				return false
			}
			if s.catalog.Now().Before(now.ClosesAt) {
				return true
			}
			_, gateNow, err := s.gate.OldestQueued(ctx, sale.SKU) // the gate closes by Redis's clock, which may be slow
			return err == nil && !gateNow.Before(now.ClosesAt)
		})
		if err != nil {
			return orders.Offer{}, err
		}
	}
	return s.offer(ctx, sale)
}

// Rebuild requests a rebuild of the gate of sku from the database, waits until the new gate is
// open, and returns its audit. Errors: ErrNotFound, ErrUnavailable as in PutSale, errors of the
// database.
func (s *Service) Rebuild(ctx context.Context, sku string) (store.Audit, error) {
	if !orders.IsSKU(sku) {
		return store.Audit{}, orders.ErrNotFound
	}
	epoch, err := s.store.RequestRebuild(ctx, sku)
	if err != nil {
		return store.Audit{}, err
	}
	err = s.untilGate(ctx, sku, func(_ context.Context, g inventory.Summary) bool { return g.Epoch > epoch })
	if err != nil {
		return store.Audit{}, err
	}
	return s.Audit(ctx, sku)
}

// Void takes back paid orders of sku (store.Void), and wakes the keeper, which rebuilds the gate.
// It does not wait for the rebuild. reason becomes the reason of the refund claims. Errors:
// *orders.InvalidError, ErrNotFound, ErrUnavailable.
func (s *Service) Void(ctx context.Context, sku string, ids []string, reason orders.Reason) (store.Voided, error) {
	var f orders.Fields
	f.Check(len(ids) > 0 && len(ids) <= store.MaxVoid, "orders", "must be 1 to %d order ids", store.MaxVoid)
	f.Check(orders.VisibleASCII(string(reason), 32), "reason", "must be 1 to 32 visible ASCII characters")
	if err := f.Err(); err != nil {
		return store.Voided{}, err
	}
	if !orders.IsSKU(sku) {
		return store.Voided{}, orders.ErrNotFound
	}
	voided, err := s.store.Void(ctx, sku, ids, reason)
	if err == nil {
		s.controller.RequestInspect(ctx, sku)
	}
	return voided, err
}

// untilGate wakes the keeper of sku, on any node, and waits until the gate is open and wanted
// returns true.
func (s *Service) untilGate(ctx context.Context, sku string, wanted func(context.Context, inventory.Summary) bool) error {
	ctx, cancel := context.WithTimeout(ctx, s.gateTimeout)
	defer cancel()
	s.controller.RequestInspect(ctx, sku)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		summaries, err := s.gate.Summaries(ctx, sku)
		if err == nil && summaries[0].Open && wanted(ctx, summaries[0]) {
			return nil
		}
		select {
		case <-ctx.Done():
			return onItsWay(sku, err)
		case <-tick.C:
		}
	}
}

// onItsWay returns the error for a change that the database has, and that the gate may not
// have yet.
func onItsWay(sku string, err error) error {
	return errors.Join(orders.ErrUnavailable, fmt.Errorf("%s: %w", sku, orders.ErrOnItsWay), err)
}

// Audit returns the units of sku by their state, and whether they add up to the total.
func (s *Service) Audit(ctx context.Context, sku string) (store.Audit, error) {
	if !orders.IsSKU(sku) {
		return store.Audit{}, orders.ErrNotFound
	}
	sale, err := s.catalog.Sale(ctx, sku)
	if err != nil {
		return store.Audit{}, err
	}
	if !sale.HasGate() { // a gate that Redis still has sells nothing
		a, err := s.store.Audit(ctx, s.store.InspectRows, sku)
		a.Direct = sale.Mode == orders.ModeDirect
		return a, err
	}
	return s.store.Audit(ctx, s.gate.Inspect, sku)
}

// Offer returns one sale with its available units.
func (s *Service) Offer(ctx context.Context, sku string) (orders.Offer, error) {
	sale, err := s.catalog.Sale(ctx, sku)
	if err != nil {
		return orders.Offer{}, err
	}
	return s.offer(ctx, *sale)
}

func (s *Service) offer(ctx context.Context, sale orders.Sale) (orders.Offer, error) {
	offers, err := s.offers(ctx, []orders.Sale{sale})
	if err != nil {
		return orders.Offer{}, err
	}
	return offers[0], nil
}

// Offers returns the sales in this node's copy, the newest first. With ErrUnavailable it still
// returns them; Available is then computed from the rows and does not count queued orders.
func (s *Service) Offers(ctx context.Context) ([]orders.Offer, error) {
	sales, _, err := s.catalog.Sales(ctx)
	if err != nil {
		return nil, err
	}
	return s.offers(ctx, sales)
}

// AllOffers returns a page of all sales by SKU, and the cursor of the next page. Without over, it
// omits the sales that Offers omits because they ended long ago.
func (s *Service) AllOffers(ctx context.Context, over bool, limit int, cursor string) ([]orders.Offer, string, error) {
	sales, next, err := s.store.SalesPage(ctx, over, limit, cursor)
	if err != nil {
		return nil, "", err
	}
	offers, err := s.offers(ctx, sales)
	return offers, next, err
}

// offers asks the gates for the available units. If the gates cannot be asked, it returns an
// error as well as the offers, with Available computed from this node's copy of the rows.
func (s *Service) offers(ctx context.Context, sales []orders.Sale) ([]orders.Offer, error) {
	_, now, err := s.catalog.Sales(ctx)
	if err != nil {
		return nil, err
	}
	offers := make([]orders.Offer, len(sales))
	var skus []string
	var gated []*orders.Offer
	for i := range sales {
		offers[i] = orders.Offer{Sale: sales[i], Available: sales[i].Total - sales[i].Sold, Now: now}
		if sales[i].HasGate() && !s.controller.GateUntrusted(sales[i].SKU) {
			skus, gated = append(skus, sales[i].SKU), append(gated, &offers[i])
		}
	}
	summaries, err := s.gate.Summaries(ctx, skus...)
	if err != nil {
		return offers, errors.Join(orders.ErrUnavailable, err)
	}
	for i, offer := range gated {
		if summaries[i].Exists {
			offer.Available, offer.QueuedOrders = summaries[i].Available, summaries[i].QueuedOrders
		}
	}
	return offers, nil
}

// OrdersOfSale returns a page of the durable orders of sku, and the cursor of the next page.
func (s *Service) OrdersOfSale(ctx context.Context, sku string, limit int, cursor string) ([]orders.Order, string, error) {
	if _, err := s.catalog.Sale(ctx, sku); err != nil {
		return nil, "", err
	}
	return s.store.OrdersOfSale(ctx, sku, limit, cursor)
}

// Claims returns a page of refund claims, and the cursor of the next page.
func (s *Service) Claims(ctx context.Context, limit int, cursor string) ([]orders.Claim, string, error) {
	return s.store.Claims(ctx, limit, cursor)
}

// OrdersOfBuyer returns a page of buyer's durable orders, and the cursor of the next page.
func (s *Service) OrdersOfBuyer(ctx context.Context, buyer string, limit int, cursor string) ([]orders.Order, string, error) {
	return s.store.OrdersOfBuyer(ctx, buyer, limit, cursor)
}
