package inventory

import (
	"context"

	"flashsale/inventory/internal/keys"
)

// Release gives back the units of closed orders, each at most once over any
// number of calls, and returns how many came back. At most 500 ids a call.
//
// Errors: ErrEpoch, ErrNoGate, and then nothing was given back;
// else unknown: call again.
func (k Keeping) Release(ctx context.Context, sku string, epoch int64, ids []string) (int64, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	names := []string{keys.Sale(sku), keys.Holds(sku), keys.Buyers(sku)}
	units, err := releaseScript.Run(ctx, k.rdb, names, appendStrings([]any{epoch}, ids)...).Int64()
	return units, scriptError("release", sku, err)
}

// Confirm drops the holds of paid orders: their units stay sold. At most 500
// ids a call; repeatable. Errors as those of Release.
func (k Keeping) Confirm(ctx context.Context, sku string, epoch int64, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	err := confirmScript.Run(ctx, k.rdb, []string{keys.Sale(sku), keys.Holds(sku)}, appendStrings([]any{epoch}, ids)...).Err()
	return scriptError("confirm", sku, err)
}

func appendStrings(args []any, values []string) []any {
	for _, v := range values {
		args = append(args, v)
	}
	return args
}
