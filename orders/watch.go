package orders

import (
	"context"
	"time"
)

// A Balance is the law of conservation as the keeper of a sale found it when it
// last compared the stores, between two of its steps: exact, however busy the
// sale was (reconcile.go). Units.
type Balance struct {
	Total     int64
	Available int64 // at the gate
	Queued    int64 // let in by the gate and not yet rows
	Sold      int64 // of open and paid rows
	Restoring int64 // of closed rows that the gate has not been told of
	Drift     int64 // what nobody can account for; below 0 units that there are not
	At        time.Time

	off bool // they differ, maybe not in sum
}

// Balances are the last ones of the SKUs that this node keeps. One that was not
// compared yet is the zero Balance.
func (s *Service) Balances() map[string]Balance {
	all := map[string]Balance{}
	for _, p := range s.keepers.all() {
		var b Balance
		if last := p.balance.Load(); last != nil {
			b = *last
		}
		all[p.sku] = b
	}
	return all
}

// Sale returns a sale as this node knows it, or else as the database does: also
// while Redis is away. Error: ErrNotFound.
func (s *Service) Sale(ctx context.Context, sku string) (*Sale, error) {
	return s.catalog.sale(ctx, sku)
}

// Watched is for those who watch sales: it costs one pipeline for all of them,
// and has an answer whatever is away. The gates could not be asked where asked
// is false: then Available is what the rows leave over, as far as this node
// knows. A SKU that the node's copy of the sales lacks is left out.
func (s *Service) Watched(ctx context.Context, skus ...string) (offers []Offer, asked bool) {
	cur := s.catalog.cur.Load()
	if cur == nil {
		return nil, false
	}
	var sales []Sale
	for _, sku := range skus {
		if sale := cur.bySKU[sku]; sale != nil {
			sales = append(sales, *sale)
		}
	}
	offers, err := s.offers(ctx, sales)
	if err == nil {
		return offers, true
	}
	now := s.catalog.clock().Add(cur.ahead).UTC()
	offers = make([]Offer, len(sales))
	for i, sale := range sales {
		offers[i] = Offer{Sale: sale, Available: sale.Total - sale.Sold, Now: now}
	}
	return offers, false
}

// SoldDirect tells whether the sale is sold past Redis, which is away.
func (o *Offer) SoldDirect() bool { return o.Mode == modeDirect }
