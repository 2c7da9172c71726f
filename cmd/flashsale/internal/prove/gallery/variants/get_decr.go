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
// On a laptop it never happens, in a rush it happens to everybody who read
// before the first one decremented.
//
// Right: decide and take in one step that nobody can come between: a script,
// or a conditional UPDATE.
//
// The commonest of all, also as SELECT and UPDATE.
var _ = show(Variant{
	Name:   "get-decr",
	Does:   "GET, an if, and DECRBY",
	Breaks: "Everybody who reads before the first one decrements sees the same last unit.",
	Source: "the commonest mistake in public code",
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
	// THE MISTAKE: by now others have done the same.
	return g.decrement(ctx, s, o)
}

func (g *getDecr) get(ctx context.Context, o Order) (left int, earlier string, err error) {
	if earlier, err = g.Redis.HGet(ctx, keysKey(o.SKU), o.Buyer+"/"+o.Key).Result(); !errors.Is(err, redis.Nil) {
		return 0, earlier, err
	}
	left, err = g.Redis.Get(ctx, stockKey(o.SKU)).Int()
	return left, "", err
}

// getNearTheEnd has the mistake show in every run, which a rush brings about now
// and then: orders go one by one until one or two units are left. Those who come
// then think for a while, and all who come meanwhile read the same.
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
