package inventory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
)

// A Draft is what one attempt of a keeper to rebuild a gate puts aside in Redis,
// in keys of its own, while the gate is what it is. Install renames them in one
// script: however many orders there are, opening takes an instant.
//
// Fence and attempt name the keys, and a fence is one keeper's: what one stages
// no other can write to, or install.
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

// A Hold is an open order: its units are taken and not yet paid.
type Hold struct {
	OrderID     string
	Buyer       string
	Quantity    int64
	Key         string // "" for none
	Fingerprint string
	At          time.Time // when it was reserved
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
	// stagePiece is how many fields go to Redis in one command, which takes it
	// about 1 ms. Where it syncs its log for each, smaller ones take far longer.
	stagePiece = 2000
)

// Stage writes changes into d. After an error, begin another draft.
func (g *Gate) Stage(ctx context.Context, d *Draft, c Changes) error {
	staged := d.keys()
	holds, buyers, replays := staged[0], staged[1], keys.Replays(d.SKU)
	for some := range slices.Chunk(c.Holds, stagePiece) {
		held := make([]any, 0, 2*len(some))
		keyed := make([]any, 0, 2*len(some))
		for _, h := range some {
			held = append(held, h.OrderID, fmt.Sprintf("%d %d %s", h.Quantity, h.At.UnixMilli(), h.Buyer))
			if h.Key != "" {
				keyed = append(keyed, keys.Replay(h.Buyer, h.Key), h.OrderID+" "+h.Fingerprint)
			}
		}
		if err := g.stage(ctx, d, func(p redis.Pipeliner) {
			p.HSet(ctx, holds, held...)
			p.Expire(ctx, holds, stagedFor)
			// Straight in: a replay tells of an order that the database has, which
			// is true whatever becomes of the draft.
			if len(keyed) > 0 {
				p.HSet(ctx, replays, keyed...)
				p.Expire(ctx, replays, 2*g.cfg.ReplayFor)
			}
		}); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(c.Ended, stagePiece) {
		if err := g.stage(ctx, d, func(p redis.Pipeliner) { p.HDel(ctx, holds, some...) }); err != nil {
			return err
		}
	}
	counts := make([]any, 0, 2*len(c.Buyers))
	for buyer, units := range c.Buyers {
		counts = append(counts, buyer, strconv.FormatInt(units, 10))
	}
	for some := range slices.Chunk(counts, 2*stagePiece) {
		if err := g.stage(ctx, d, func(p redis.Pipeliner) {
			p.HSet(ctx, buyers, some...)
			p.Expire(ctx, buyers, stagedFor)
		}); err != nil {
			return err
		}
	}
	return nil
}

// stage writes one piece of d, and its number after it. A replica that is
// promoted lacks the latest writes and nothing before them: where all numbers
// are there, so are all pieces, those that only changed a field too. Each piece
// renews what it writes to: whenever this process dies, nothing stays for good.
func (g *Gate) stage(ctx context.Context, d *Draft, write func(redis.Pipeliner)) error {
	pieces := d.keys()[2]
	d.pieces++
	_, err := g.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		write(p)
		p.SAdd(ctx, pieces, d.pieces)
		p.Expire(ctx, pieces, stagedFor)
		return nil
	})
	if err != nil {
		return fmt.Errorf("stage rebuild of %s: %w", d.SKU, err)
	}
	return nil
}

// Discard removes a draft that will not be installed.
func (g *Gate) Discard(ctx context.Context, d *Draft) error {
	if err := g.rdb.Unlink(ctx, d.keys()...).Err(); err != nil {
		return fmt.Errorf("discard rebuild of %s: %w", d.SKU, err)
	}
	return nil
}
