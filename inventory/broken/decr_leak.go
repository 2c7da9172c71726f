package broken

import (
	"context"
	_ "embed"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
)

// decrLeak takes first and looks after: below zero means sold out.
//
// What breaks it: nothing is left. A decrements: −1, refused. B: −2, refused.
// Then a sold unit is cancelled and comes back: −1. It is for sale, and the
// counter says it is not. A thousand refusals swallow the next thousand
// cancellations; also, two units asked for where one is left strand that one.
//
// Right: look and take in one step (reserve.lua); or give back at once what
// was taken in vain, and live with others being refused in between.
//
// In the wild: tutorials that praise DECR for being atomic, which it is.
type decrLeak struct{ rdb redis.UniversalClient }

var (
	//go:embed decr_leak.lua
	decrLeakLua string

	decrLeakScript = redis.NewScript(requestLua + decrLeakLua)
)

func (g decrLeak) reserve(ctx context.Context, r inventory.Request) (inventory.Reservation, error) {
	return reserve(ctx, g.rdb, decrLeakScript, r)
}
