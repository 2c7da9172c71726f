package variants

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Reads what is left, decides in the program, and decrements.
//
// What breaks it: 1 unit is left. A reads 1. B reads 1. A decrements and sells.
// B decrements and sells. Both commands are atomic; the two together are not.
// On a laptop it never happens. In a rush it happens to every buyer who reads
// before the first decrement.
//
// Right: decide and take in one atomic step: a script, or a conditional UPDATE.
//
// It is the most common mistake, also as SELECT and UPDATE.
var _ = show(Variant{
	Name:   "get-decr",
	Does:   "GET, an if, and DECRBY",
	Breaks: "All buyers who read before the first decrement see the same last unit.",
	Source: "the most common mistake in public code",
	Caught: "oversold",
	New: func(s Stores) Shop {
		g := &getDecr{counter: newCounter(s)}
		g.decrement = g.script("get_decr.lua")
		g.take = g.getThenDecrement
		return g
	},
})

type getDecr struct {
	*counter
	decrement func(context.Context, Sale, Order) (string, error)
	end       sync.Mutex
}

func (g *getDecr) getThenDecrement(ctx context.Context, s Sale, o Order) (string, error) {
	left, earlier, err := g.get(ctx, o)
	if left >= o.Quantity && left <= manyLeft {
		left, earlier, err = g.getNearTheEnd(ctx, s, o)
	}
	switch {
	case err != nil || earlier != "":
		return earlier, err
	case left < o.Quantity:
		return "", ErrSoldOut
	}
	// THE MISTAKE: other orders may have read the same number.
	return g.decrement(ctx, s, o)
}

func (g *getDecr) get(ctx context.Context, o Order) (left int, earlier string, err error) {
	if earlier, err = g.Redis.HGet(ctx, keysKey(o.SKU), o.Buyer+"/"+o.Key).Result(); !errors.Is(err, redis.Nil) {
		return 0, earlier, err
	}
	left, err = g.Redis.Get(ctx, stockKey(o.SKU)).Int()
	return left, "", err
}

// getNearTheEnd makes the mistake certain, which a rush alone does not. Orders go one
// by one until one or two units are left. Later orders wait for a while after reading,
// so all of them read the same number.
func (g *getDecr) getNearTheEnd(ctx context.Context, s Sale, o Order) (left int, earlier string, err error) {
	g.end.Lock()
	left, earlier, err = g.get(ctx, o)
	if err == nil && earlier == "" && left > 2 {
		earlier, err = g.decrement(ctx, s, o)
	}
	g.end.Unlock()
	if err == nil && earlier == "" && left >= o.Quantity {
		time.Sleep(thinks)
	}
	return left, earlier, err
}

const (
	manyLeft = 128
	thinks   = 300 * time.Millisecond
)
