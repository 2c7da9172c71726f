package inventory

import (
	"context"

	"flashsale/inventory/internal/keys"
)

// SetTerms applies the changed terms of a sale to the gate. If the total changes, the
// available units change by the same number. SetTerms can be repeated. It returns the
// same errors as ReleaseHolds.
func (k KeeperGate) SetTerms(ctx context.Context, sku string, epoch int64, t Terms) error {
	err := termsScript.Run(ctx, k.rdb, k.named(keys.Sale(sku)),
		epoch, t.Total, t.UnitsPerBuyer, t.OpensAt.UnixMilli(), t.ClosesAt.UnixMilli()).Err()
	return scriptError("set terms of", sku, err)
}

// BeginRebuild shuts the gate of that epoch. If the gate is missing or has another epoch,
// BeginRebuild does nothing, and Install returns false later. BeginRebuild can be
// repeated.
func (k KeeperGate) BeginRebuild(ctx context.Context, sku string, epoch int64) error {
	return scriptError("begin rebuild of", sku, beginRebuildScript.Run(ctx, k.rdb, k.named(keys.Sale(sku)), epoch).Err())
}

// DeleteSale deletes all keys of a sale that is over. epoch is the epoch of its gate, or
// 0 if there is no gate. DeleteSale returns false and does nothing if the gate has
// another epoch, the sale is not over, an order is queued, or an order holds units.
func (k KeeperGate) DeleteSale(ctx context.Context, sku string, epoch int64) (bool, error) {
	names := k.named(keys.Sale(sku), keys.Holds(sku), keys.Buyers(sku), keys.Queue(sku), keys.Keys(sku))
	answer, err := deleteSaleScript.Run(ctx, k.rdb, names, epoch).Text()
	return answer == "OK", scriptError("delete sale", sku, err)
}

// Install opens a gate with the holds and buyers of the draft d. It replaces the shut gate,
// whose epoch must be shutEpoch. If shutEpoch is 0, the gate must be missing. Orders that are
// still queued are dropped.
//
// v contains the epoch that the database has just issued, the terms, the available units
// (below 0 after a cut), and the numbers of staged holds and buyers. Install returns
// false if the gate is open or has another epoch, or if Redis has lost a part of the
// draft. The caller must then start the rebuild again.
func (k KeeperGate) Install(ctx context.Context, d *Draft, shutEpoch int64, v View) (bool, error) {
	names := k.named(append([]string{keys.Sale(d.SKU), keys.Holds(d.SKU), keys.Buyers(d.SKU), keys.Queue(d.SKU)}, append(d.keys(), keys.Keys(d.SKU))...)...)
	answer, err := installScript.Run(ctx, k.rdb, names, shutEpoch, v.Epoch, v.Holds, v.Buyers, d.pieces,
		v.Terms.Total, v.Available, v.Terms.UnitsPerBuyer, v.Terms.OpensAt.UnixMilli(), v.Terms.ClosesAt.UnixMilli()).Text()
	return answer == "OK", scriptError("install", d.SKU, err)
}
