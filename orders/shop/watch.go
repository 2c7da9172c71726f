package shop

import (
	"context"

	"flashsale/orders"
)

// Sale returns a sale as this node knows it, or else as the database does: also
// while Redis is away. Error: ErrNotFound.
func (s *Service) Sale(ctx context.Context, sku string) (*orders.Sale, error) {
	return s.catalog.Sale(ctx, sku)
}

// Watched is for those who watch sales: it costs one pipeline for all of them,
// and has an answer whatever is away. The gates could not be asked where asked
// is false: then Available is what the rows leave over, as far as this node
// knows. A SKU that the node's copy of the sales lacks is left out.
func (s *Service) Watched(ctx context.Context, skus ...string) (offers []orders.Offer, asked bool) {
	var sales []orders.Sale
	for _, sku := range skus {
		if sale := s.catalog.Known(sku); sale != nil {
			sales = append(sales, *sale)
		}
	}
	offers, err := s.offers(ctx, sales)
	return offers, err == nil
}
