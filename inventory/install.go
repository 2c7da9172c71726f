package inventory

import (
	"context"

	"flashsale/inventory/internal/keys"
)

// SetTerms brings a changed sale to the gate; a new total moves what is
// available by the difference. Repeatable. Errors as those of Release.
func (k Keeping) SetTerms(ctx context.Context, sku string, epoch int64, t Terms) error {
	err := termsScript.Run(ctx, k.rdb, []string{keys.Sale(sku)},
		epoch, t.Total, t.PerBuyer, t.OpensAt.UnixMilli(), t.ClosesAt.UnixMilli()).Err()
	return scriptError("set terms of", sku, err)
}

// BeginRebuild shuts the gate of that epoch. If the gate is missing or of another epoch,
// BeginRebuild does nothing, and Install finds the difference. It can be repeated.
func (k Keeping) BeginRebuild(ctx context.Context, sku string, epoch int64) error {
	return scriptError("shut", sku, beginRebuildScript.Run(ctx, k.rdb, []string{keys.Sale(sku)}, epoch).Err())
}

// DeleteSale deletes the gate of that epoch (0: there is none), whose sale is over, with
// all that Redis has of the sale. It returns false and does nothing if orders are
// queued, units are held, or the gate is of another epoch.
func (k Keeping) DeleteSale(ctx context.Context, sku string, epoch int64) (bool, error) {
	names := []string{keys.Sale(sku), keys.Holds(sku), keys.Buyers(sku), keys.Queue(sku), keys.Keys(sku)}
	answer, err := deleteSaleScript.Run(ctx, k.rdb, names, epoch).Text()
	return answer == "OK", scriptError("forget", sku, err)
}

// Install opens a gate with the holds and buyers that are staged as d. v holds the epoch
// that the database has just issued, the terms, the units that are available (below zero
// after a cut), and the numbers of staged holds and buyers. Install replaces the shut gate
// of epoch was, or a missing gate if was is 0. Orders that are still queued are dropped.
// It returns false if the gate is open or of another epoch, or if Redis has lost a part of
// the draft. The rebuild then starts over.
func (k Keeping) Install(ctx context.Context, d *Draft, was int64, v View) (bool, error) {
	names := append([]string{keys.Sale(d.SKU), keys.Holds(d.SKU), keys.Buyers(d.SKU), keys.Queue(d.SKU)}, append(d.keys(), keys.Keys(d.SKU))...)
	answer, err := installScript.Run(ctx, k.rdb, names, was, v.Epoch, v.Holds, v.Buyers, d.pieces,
		v.Terms.Total, v.Available, v.Terms.PerBuyer, v.Terms.OpensAt.UnixMilli(), v.Terms.ClosesAt.UnixMilli()).Text()
	return answer == "OK", scriptError("install", d.SKU, err)
}
