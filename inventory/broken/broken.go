// Package broken is a gallery of gates that sell wrongly, so that anybody can
// see what each mistake does, and that the load test's verdict notices.
//
// Each makes one mistake and nothing else: the rest (window, idempotency,
// holds, queue, the buyers' counts) is as it should be, on the same keys. They
// are for demonstrations: unbatched, and without a memory of being sold out.
package broken

import (
	"context"
	_ "embed" // the scripts, each in a file of its own
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
	"flashsale/inventory/internal/keys"
)

// A Strategy is a way to sell wrongly.
type Strategy struct {
	Name string
	Does string // one line
}

// Strategies are all there are.
var Strategies = []Strategy{
	{"get-decr", "reads what is left, decides, then decrements: oversells to everybody who read in between"},
	{"decr-leak", "decrements first and refuses below zero without giving back: cancelled units are never sold again"},
	{"no-limit", "does not check what a buyer already holds: one buyer can take it all"},
}

// A Variant is a gate of which reserving is broken. Everything else, what
// keepers and readers call, is the right gate's.
type Variant struct {
	*inventory.Gate
	reserve func(context.Context, inventory.Request) (inventory.Reservation, error)
}

// Gate returns the broken gate of that name, on the same Redis as g, or an
// error that lists the names.
func Gate(strategy string, g *inventory.Gate, rdb redis.UniversalClient) (*Variant, error) {
	v := &Variant{Gate: g}
	switch strategy {
	case "get-decr":
		v.reserve = (&getDecr{rdb: rdb}).reserve
	case "decr-leak":
		v.reserve = decrLeak{rdb}.reserve
	case "no-limit":
		v.reserve = noLimit{rdb}.reserve
	default:
		var names []string
		for _, s := range Strategies {
			names = append(names, s.Name)
		}
		return nil, fmt.Errorf("strategy %q: want one of %s", strategy, strings.Join(names, ", "))
	}
	return v, nil
}

// Reserve is inventory.Gate's, broken. Errors as there.
func (v *Variant) Reserve(ctx context.Context, r inventory.Request) (inventory.Reservation, error) {
	return v.reserve(ctx, r)
}

// SoldOut remembers nothing: every request asks Redis.
func (v *Variant) SoldOut(string, string) bool { return false }

//go:embed request.lua
var requestLua string

// replayFor is how long keys are remembered, as by default in package inventory.
const replayFor = 15 * time.Minute

// run calls one of this package's scripts for one request.
func run(ctx context.Context, rdb redis.UniversalClient, script *redis.Script, r inventory.Request) (any, error) {
	names := []string{keys.Sale(r.SKU), keys.Holds(r.SKU), keys.Buyers(r.SKU), keys.Queue(r.SKU), keys.Replays(r.SKU)}
	reply, err := script.Run(ctx, rdb, names, r.OrderID, r.Buyer, r.Quantity, r.Key, r.Fingerprint, r.Node,
		int64(replayFor/time.Second), inventory.WakeChannel, r.SKU).Result()
	if err != nil {
		return nil, fmt.Errorf("reserve %s: %w", r.SKU, err)
	}
	return reply, nil
}

// reserve is run where the script's reply is the outcome.
func reserve(ctx context.Context, rdb redis.UniversalClient, script *redis.Script, r inventory.Request) (inventory.Reservation, error) {
	reply, err := run(ctx, rdb, script, r)
	if err != nil {
		return inventory.Reservation{}, err
	}
	return inventory.Outcome(r.OrderID, reply)
}
