package inventory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"flashsale/inventory/internal/keys"
)

// A Draft is one attempt of a keeper to rebuild a gate. It is staged in keys of its own
// while the gate stays in use. Install renames these keys in one script, so opening takes
// the same short time for any number of orders.
//
// The names of the keys contain Fence and Attempt. The database issues a fence to one
// keeper only, so no other keeper can write to the draft or install it.
type Draft struct {
	SKU            string
	Fence, Attempt int64

	pieces int64 // pieces written so far
}

// keys returns the keys of the draft, in the order of install.lua.
func (d *Draft) keys() []string {
	name := fmt.Sprintf("%d-%d", d.Fence, d.Attempt)
	return []string{keys.StagedHolds(d.SKU, name), keys.StagedBuyers(d.SKU, name), keys.StagedPieces(d.SKU, name)}
}

// Changes are additions to a draft and corrections of it.
type Changes struct {
	Holds  []Hold           // open orders
	Ended  []string         // ids of orders that are no longer open
	Buyers map[string]int64 // units held or paid; 0 for a buyer whose units were released
}

const (
	// stagedFor is the time after which Redis deletes the draft of a rebuild that died.
	stagedFor = 10 * time.Minute
	// stagePiece is the number of fields and values that one script writes, in about 1
	// ms. If Redis syncs its log after each command, smaller pieces take far longer.
	stagePiece = 4000
)

// Stage writes changes to d in numbered pieces. A promoted replica lacks only the last
// writes, so a draft that has all numbers has all pieces. Each piece renews the expiry of
// the keys that it writes to. After an error, the caller must begin another draft.
func (k KeeperGate) Stage(ctx context.Context, d *Draft, c Changes) error {
	staged := k.named(d.keys()...)
	holds, buyers := staged[0], staged[1]
	held := make([]any, 0, 2*len(c.Holds))
	for _, h := range c.Holds {
		held = append(held, h.OrderID, fmt.Sprintf("%d %d %s", h.Quantity, h.AcceptedAt.UnixMilli(), h.Buyer))
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
				return fmt.Errorf("stage the rebuild of %s: %w", d.SKU, err)
			}
		}
	}
	return nil
}

// Discard deletes a draft that will not be installed.
func (k KeeperGate) Discard(ctx context.Context, d *Draft) error {
	if err := k.rdb.Unlink(ctx, k.named(d.keys()...)...).Err(); err != nil {
		return fmt.Errorf("discard the rebuild of %s: %w", d.SKU, err)
	}
	return nil
}
