package variants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/client"
)

// Optimistic: WATCH the stock, read, decide, and MULTI/EXEC, which does nothing if
// the stock has changed since. Then start over.
//
// It is right: EXEC is atomic. But of all orders that try at the same time only one
// succeeds. The more buyers come, the less is sold. An order that fails for too long
// is refused with ErrBusy.
//
// Instead: let Redis decide, in a script. Then no attempt is in vain, and callers of
// the same moment can share one call.
//
// Known from Redis's own documentation of transactions.
var _ = show(Variant{
	Name:   "watch-multi",
	Does:   "WATCH, GET, MULTI, DECRBY, EXEC, again until it succeeds",
	Source: "Redis documentation, Transactions",
	New: func(s Stores) Shop {
		w := watchMulti{newCounter(s)}
		w.take = w.optimistic
		return w
	},
})

type watchMulti struct{ *counter }

func (w watchMulti) optimistic(ctx context.Context, s Sale, o Order) (id string, err error) {
	for deadline, try := time.Now().Add(buyersPatience), 1; time.Now().Before(deadline); try++ {
		err = w.Redis.Watch(ctx, func(tx *redis.Tx) error {
			id, err = w.attempt(ctx, tx, s, o)
			return err
		}, stockKey(s.SKU))
		if !errors.Is(err, redis.TxFailedErr) {
			return id, err
		}
		if err := client.Wait(ctx, rand.N(time.Duration(min(try, 20))*time.Millisecond)); err != nil {
			return "", err
		}
	}
	return "", ErrBusy
}

func (w watchMulti) attempt(ctx context.Context, tx *redis.Tx, s Sale, o Order) (string, error) {
	key := o.Buyer + "/" + o.Key
	var stock, units, earlier *redis.StringCmd
	_, err := tx.Pipelined(ctx, func(p redis.Pipeliner) error {
		stock = p.Get(ctx, stockKey(s.SKU))
		units = p.HGet(ctx, buyersKey(s.SKU), o.Buyer)
		// Read the key last. The same request may run twice at once, and a caller
		// that sees the other's units must also see its key.
		earlier = p.HGet(ctx, keysKey(s.SKU), key)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read the buyer's earlier order: %w", err)
	}
	left, err := stock.Int()
	if err != nil {
		return "", fmt.Errorf("read stock: %w", err)
	}
	has, err := units.Int()
	switch {
	case err != nil && !errors.Is(err, redis.Nil):
		return "", fmt.Errorf("read the buyer's units: %w", err)
	case earlier.Err() == nil:
		return earlier.Val(), nil
	case has+o.Quantity > s.UnitsPerBuyer:
		return "", ErrBuyerLimit
	case left < o.Quantity:
		return "", ErrSoldOut
	}
	queued, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.DecrBy(ctx, stockKey(s.SKU), int64(o.Quantity))
		p.HIncrBy(ctx, buyersKey(s.SKU), o.Buyer, int64(o.Quantity))
		p.HSet(ctx, holdsKey(s.SKU), o.ID, fmt.Sprintf("%d %s", o.Quantity, o.Buyer))
		p.HSet(ctx, keysKey(s.SKU), key, o.ID)
		p.HSet(ctx, queueKey(s.SKU), o.ID, queued)
		return nil
	})
	return o.ID, err
}
