package broken

import (
	"context"
	_ "embed"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
)

// noLimit takes units in one step, from whoever's share.
//
// What breaks it: the limit is 2. A orders 2, and 2 more, and again. Nothing is
// oversold; one buyer's robot has it all.
//
// Right: what a buyer holds is counted in the same step that takes the units
// (reserve.lua). A check before that step is get-decr over again: two orders of
// one buyer at once both pass it.
//
// In the wild: the limit left to the page or the gateway; or kept in a marker
// with a TTL, which gives the buyer a second share when it expires.
type noLimit struct{ rdb redis.UniversalClient }

var (
	//go:embed no_limit.lua
	noLimitLua string

	noLimitScript = redis.NewScript(requestLua + noLimitLua)
)

func (g noLimit) reserve(ctx context.Context, r inventory.Request) (inventory.Reservation, error) {
	return reserve(ctx, g.rdb, noLimitScript, r)
}
