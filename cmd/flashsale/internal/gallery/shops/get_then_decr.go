package shops

import (
	"context"
	_ "embed"
	"fmt"
)

// Reads what is left, decides in the program, and decrements.
//
// What breaks it: 1 unit is left. A reads 1. B reads 1. A decrements and sells.
// B decrements and sells. Both commands are atomic; the two together are not.
// On a laptop it never happens, in a rush it happens to everybody who read
// before the first one decremented.
//
// Right: decide and take in one step that nobody can come between: a script,
// or a conditional UPDATE.
//
// The commonest of all, also as SELECT and UPDATE.
func init() {
	show(Variant{
		Name:   "get-then-decr",
		Does:   "GET, an if, and DECRBY",
		Breaks: "Everybody who reads before the first one decrements sees the same last unit.",
		Source: "the commonest mistake in public code",
		Caught: "oversold",
		New: func(s Stores) Shop {
			c := newCounter(s)
			decrement := c.script(decrementLua)
			c.take = func(ctx context.Context, s Sale, o Order) (string, error) {
				left, err := c.Redis.Get(ctx, stockKey(s.SKU)).Int()
				if err != nil {
					return "", fmt.Errorf("read stock: %w", err)
				}
				// What a careful program looks up before it decides.
				earlier, err := c.orders(ctx, "WHERE sku = ? AND buyer = ? AND order_key = ?", o.SKU, o.Buyer, o.Key)
				switch {
				case err != nil:
					return "", err
				case len(earlier) > 0:
					return earlier[0].ID, nil
				case left < o.Quantity:
					return "", ErrSoldOut
				}
				// THE MISTAKE: by now others have done the same.
				return decrement(ctx, s, o)
			}
			return c
		},
	})
}

//go:embed get_then_decr.lua
var decrementLua string
