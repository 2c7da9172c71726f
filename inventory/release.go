package inventory

import (
	"context"

	"flashsale/inventory/internal/keys"
)

// ReleaseHolds returns the units of closed orders to the gate, each order at most once over
// any number of calls. It returns the number of units released, and takes at most
// 500 ids.
//
// After ErrEpoch and ErrNoGate, nothing was released. After any other error the outcome
// is unknown, and the caller must repeat the call.
func (k KeeperGate) ReleaseHolds(ctx context.Context, sku string, epoch int64, ids []string) (int64, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	names := k.named(keys.Sale(sku), keys.Holds(sku), keys.Buyers(sku))
	units, err := releaseScript.Run(ctx, k.rdb, names, appendStrings([]any{epoch}, ids)...).Int64()
	return units, scriptError("release", sku, err)
}

// DropHolds removes the holds of paid orders. The units stay sold. It takes at most 500 ids
// and can be repeated. It returns the same errors as ReleaseHolds.
func (k KeeperGate) DropHolds(ctx context.Context, sku string, epoch int64, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	err := dropScript.Run(ctx, k.rdb, k.named(keys.Sale(sku), keys.Holds(sku)), appendStrings([]any{epoch}, ids)...).Err()
	return scriptError("drop holds of", sku, err)
}

func appendStrings(args []any, values []string) []any {
	for _, v := range values {
		args = append(args, v)
	}
	return args
}
