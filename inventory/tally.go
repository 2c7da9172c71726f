package inventory

import (
	"context"
	"fmt"

	"flashsale/inventory/internal/keys"
)

// A Tally is what a keeper compares with the database, at one instant.
type Tally struct {
	Open      bool // false: missing, or shut for a rebuild
	Epoch     int64
	Total     int64
	Available int64
	Holds     int64 // how many orders hold units
	Counted   int64 // orders in the queue, by the gate's own count

	// Long: the queue was too long to be read, and what follows is not known.
	Long   bool
	Queued []Queued

	Held   map[string]bool  // of the order ids asked for, those that hold units
	Buyers map[string]int64 // of the buyers asked for, the units that count
}

// Units are those in the queue.
func (t *Tally) Units() (units int64) {
	for _, q := range t.Queued {
		units += q.Quantity
	}
	return units
}

// maxTally is how many queued orders a Tally reads: 2 ms of Redis's time.
const maxTally = 2000

// Tally reads what the gate of sku has, and what it has of these orders and
// buyers, all of it in one step. At most 1,000 of each.
func (k Keeping) Tally(ctx context.Context, sku string, ids, buyers []string) (Tally, error) {
	args := append(make([]any, 0, 2+len(ids)+len(buyers)), maxTally, len(ids))
	for _, asked := range [][]string{ids, buyers} {
		for _, name := range asked {
			args = append(args, name)
		}
	}
	names := []string{keys.Sale(sku), keys.Holds(sku), keys.Buyers(sku), keys.Queue(sku)}
	reply, err := tallyScript.Run(ctx, k.rdb, names, args...).Slice()
	if err != nil {
		return Tally{}, fmt.Errorf("tally gate of %s: %w", sku, err)
	}
	if len(reply) < 9 {
		return Tally{}, nil
	}
	t := Tally{
		Open: reply[0] == "open", Epoch: number(reply[1]), Total: number(reply[2]), Available: number(reply[3]),
		Holds: number(reply[4]), Counted: number(reply[5]),
		Held: map[string]bool{}, Buyers: map[string]int64{},
	}
	entries, whole := reply[6].([]any)
	t.Long = !whole
	for _, e := range entries {
		id, its, err := unpackEntry(e)
		if err != nil {
			return Tally{}, fmt.Errorf("queue of %s, entry %s: %w", sku, id, err)
		}
		t.Queued = append(t.Queued, its...)
	}
	holds, _ := reply[7].([]any)
	for i, hold := range holds {
		t.Held[ids[i]] = hold != nil
	}
	units, _ := reply[8].([]any)
	for i, n := range units {
		t.Buyers[buyers[i]] = number(n)
	}
	return t, nil
}

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
