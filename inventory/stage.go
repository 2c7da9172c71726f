package inventory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"flashsale/inventory/internal/keys"
)

// A Draft is what one attempt of a keeper to rebuild a gate puts aside in Redis,
// in keys of its own, while the gate is what it is. Install renames them in one
// script: however many orders there are, opening takes an instant.
//
// Fence and attempt name the keys, and the database gives a fence to one keeper:
// what one stages no other can write to, or install.
type Draft struct {
	SKU            string
	Fence, Attempt int64

	pieces int64 // written so far
}

// keys of the draft, in the order of install.lua.
func (d *Draft) keys() []string {
	name := fmt.Sprintf("%d-%d", d.Fence, d.Attempt)
	return []string{keys.StagedHolds(d.SKU, name), keys.StagedBuyers(d.SKU, name), keys.StagedPieces(d.SKU, name)}
}

// Changes are what a draft is made of, and how it is brought up to date.
type Changes struct {
	Holds  []Hold           // open orders, to be added
	Ended  []string         // ids of orders that are open no more
	Buyers map[string]int64 // units held or paid, with 0 for a buyer whose units came back
}

const (
	// stagedFor is how long a rebuild that died leaves its draft behind.
	stagedFor = 10 * time.Minute
	// stagePiece is how many fields and values go to Redis in one script, which
	// takes it about 1 ms. Where it syncs its log for each, smaller ones take far
	// longer.
	stagePiece = 4000
)

// Stage writes changes into d, piece by piece, each with its number. A replica that is
// promoted lacks only the latest writes. Therefore a draft that has all numbers has all
// pieces. Each piece renews the expiry of the keys that it writes to. After an error,
// begin another draft.
func (k Keeping) Stage(ctx context.Context, d *Draft, c Changes) error {
	staged := d.keys()
	holds, buyers := staged[0], staged[1]
	held := make([]any, 0, 2*len(c.Holds))
	for _, h := range c.Holds {
		held = append(held, h.OrderID, fmt.Sprintf("%d %d %s", h.Quantity, h.At.UnixMilli(), h.Buyer))
	}
	counts := make([]any, 0, 2*len(c.Buyers))
	for buyer, units := range c.Buyers {
		counts = append(counts, buyer, strconv.FormatInt(units, 10))
	}
	for _, all := range []struct {
		key, command string
		args         []any
	}{{holds, "HSET", held}, {holds, "HDEL", appendStrings(nil, c.Ended)}, {buyers, "HSET", counts}} {
		for some := range slices.Chunk(all.args, stagePiece) {
			d.pieces++
			args := append([]any{d.pieces, int(stagedFor.Seconds()), all.command}, some...)
			if err := stageScript.Run(ctx, k.rdb, []string{all.key, staged[2]}, args...).Err(); err != nil {
				return fmt.Errorf("stage rebuild of %s: %w", d.SKU, err)
			}
		}
	}
	return nil
}

// Discard removes a draft that will not be installed.
func (k Keeping) Discard(ctx context.Context, d *Draft) error {
	if err := k.rdb.Unlink(ctx, d.keys()...).Err(); err != nil {
		return fmt.Errorf("discard rebuild of %s: %w", d.SKU, err)
	}
	return nil
}
