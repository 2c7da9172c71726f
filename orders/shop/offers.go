package shop

import (
	"context"

	"flashsale/orders"
)

// Sale returns a sale from this node's copy, or from the database if the copy lacks it. It does
// not need Redis. Errors: ErrNotFound, errors of the database.
func (s *Service) Sale(ctx context.Context, sku string) (*orders.Sale, error) {
	return s.catalog.Sale(ctx, sku)
}

// KnownOffers returns the offers of the sales that this node has a copy of, for a page that
// shows them all the time. It costs one Redis pipeline. If the gates could not be asked, exact
// is false and Available is computed from the copy of the rows.
func (s *Service) KnownOffers(ctx context.Context, skus ...string) (offers []orders.Offer, exact bool) {
	var sales []orders.Sale
	for _, sku := range skus {
		if sale := s.catalog.Cached(sku); sale != nil {
			sales = append(sales, *sale)
		}
	}
	offers, err := s.offers(ctx, sales)
	return offers, err == nil
}
