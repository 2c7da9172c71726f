package inventory

import (
	"context"

	"flashsale/inventory/internal/keys"
)

// Claim shows the gate a new keeper's fence: those below it are refused from
// here on. Error: ErrFenced.
func (g *Gate) Claim(ctx context.Context, sku string, fence int64) error {
	return scriptError("claim", sku, claimScript.Run(ctx, g.rdb, []string{keys.Sale(sku)}, fence).Err())
}

// SetTerms brings a changed sale to the gate; a new total moves what is
// available by the difference. Repeatable. Errors as those of Release.
func (g *Gate) SetTerms(ctx context.Context, sku string, m Mandate, t Terms) error {
	err := termsScript.Run(ctx, g.rdb, []string{keys.Sale(sku)},
		m.Fence, m.Epoch, t.Total, t.PerBuyer, t.OpensAt.UnixMilli(), t.ClosesAt.UnixMilli()).Err()
	return scriptError("set terms of", sku, err)
}

// Shut closes the gate for a rebuild. Error: ErrFenced.
func (g *Gate) Shut(ctx context.Context, sku string, m Mandate) error {
	return scriptError("shut", sku, shutScript.Run(ctx, g.rdb, []string{keys.Sale(sku)}, m.Fence, m.Epoch).Err())
}

// Stock is what a rebuild opens the gate with.
type Stock struct {
	Terms
	Available int64 // total − sold; below zero after a cut
	Holds     int   // how many of them are staged
	Buyers    int
}

// Install opens a shut or missing gate with what is staged as d, under the epoch
// that the database has just issued. False means that the gate is not in a state
// to be opened (open already, of this epoch or a newer one, orders are queued) or
// that Redis has lost what was staged: start over. Error: ErrFenced.
func (g *Gate) Install(ctx context.Context, d *Draft, epoch int64, s Stock) (bool, error) {
	names := append([]string{keys.Sale(d.SKU), keys.Holds(d.SKU), keys.Buyers(d.SKU), keys.Queue(d.SKU)}, d.keys()...)
	answer, err := installScript.Run(ctx, g.rdb, names, d.Fence, epoch, s.Holds, s.Buyers, d.pieces,
		s.Total, s.Available, s.PerBuyer, s.OpensAt.UnixMilli(), s.ClosesAt.UnixMilli()).Text()
	return answer == "OK", scriptError("install", d.SKU, err)
}
