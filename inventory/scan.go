package inventory

import (
	"context"
	"fmt"

	"flashsale/inventory/internal/keys"
)

// About how many fields of a hash are read at once. A buyer is compared by all
// of their orders, of which there may be many.
const (
	holdsPiece  = 500
	buyersPiece = 100
)

// ScanHolds reads some of the orders that hold units at the gate of sku, and
// where to go on: it begins with cursor 0 and is through when next is 0. What
// is there from the beginning to the end is read, once or more; what comes or
// goes meanwhile may be.
func (k Keeping) ScanHolds(ctx context.Context, sku string, cursor uint64) (ids []string, next uint64, err error) {
	fields, next, err := k.scan(ctx, keys.Holds(sku), cursor, holdsPiece)
	for i := 0; i < len(fields); i += 2 {
		ids = append(ids, fields[i])
	}
	return ids, next, err
}

// ScanBuyers reads some of the buyers and the units that count for them at the
// gate of sku, as ScanHolds does. One without units may be left out.
func (k Keeping) ScanBuyers(ctx context.Context, sku string, cursor uint64) (units map[string]int64, next uint64, err error) {
	fields, next, err := k.scan(ctx, keys.Buyers(sku), cursor, buyersPiece)
	units = make(map[string]int64, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		if n := number(fields[i+1]); n != 0 {
			units[fields[i]] = n
		}
	}
	return units, next, err
}

func (k Keeping) scan(ctx context.Context, key string, cursor uint64, piece int64) ([]string, uint64, error) {
	fields, next, err := k.rdb.HScan(ctx, key, cursor, "", piece).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("read a page of %s: %w", key, err)
	}
	return fields, next, nil
}
