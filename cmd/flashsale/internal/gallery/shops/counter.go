package shops

import (
	"context"
	_ "embed" // the scripts, each in a file of its own
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A counter is the right base of all who count in Redis and store in a
// database: units are taken in Redis, with a hold, before the row is written.
// Whoever dies in between leaves the hold, and what is held becomes a row. The
// hold is also the marker for giving back: no hold, nothing to give back.
//
// A variant puts something else in place of one of the steps.
type counter struct {
	tables
	// take takes the order's units, or returns the id of the order that the
	// buyer has under this key already.
	take func(ctx context.Context, s Sale, o Order) (id string, err error)
	// restore gives the units of a closed order back, once.
	restore func(ctx context.Context, o Order) error
	// closing is what Close does.
	closing func(ctx context.Context, o Order, as string) error
	// also is done by Run with the rest.
	also []func(context.Context) error
}

func newCounter(s Stores) *counter {
	c := &counter{tables: tables{Stores: s}}
	c.take, c.restore, c.closing = c.script(takeLua), c.giveBack, c.closeAndRestore
	return c
}

// All keys of a sale share a slot.
func stockKey(sku string) string  { return "shop:{" + sku + "}:stock" }  // units
func buyersKey(sku string) string { return "shop:{" + sku + "}:buyers" } // buyer → units
func holdsKey(sku string) string  { return "shop:{" + sku + "}:holds" }  // order id → "units buyer"
func keysKey(sku string) string   { return "shop:{" + sku + "}:keys" }   // buyer/key → order id
func queueKey(sku string) string  { return "shop:{" + sku + "}:queue" }  // order id → order, until it is a row

var (
	//go:embed request.lua
	requestLua string
	//go:embed take.lua
	takeLua string
	//go:embed give_back.lua
	giveBackLua string

	giveBackScript = redis.NewScript(giveBackLua)
)

func (c *counter) Open(ctx context.Context, s Sale) error {
	if err := c.tables.Open(ctx, s); err != nil {
		return err
	}
	return c.Redis.Set(ctx, stockKey(s.SKU), s.Total, 0).Err()
}

// script returns a take that is one script.
func (c *counter) script(lua string) func(context.Context, Sale, Order) (string, error) {
	script := redis.NewScript(requestLua + lua)
	return func(ctx context.Context, s Sale, o Order) (string, error) {
		queued, err := json.Marshal(o)
		if err != nil {
			return "", err
		}
		keys := []string{stockKey(s.SKU), buyersKey(s.SKU), holdsKey(s.SKU), keysKey(s.SKU), queueKey(s.SKU)}
		reply, err := script.Run(ctx, c.Redis, keys, o.ID, o.Buyer, o.Key, o.Quantity, s.PerBuyer, queued).Text()
		switch {
		case err != nil:
			return "", fmt.Errorf("take units: %w", err)
		case reply == "sold_out":
			return "", ErrSoldOut
		case reply == "buyer_limit":
			return "", ErrBuyerLimit
		}
		return reply, nil
	}
}

func (c *counter) Order(ctx context.Context, o Order) (Order, bool, error) {
	s, err := c.Sale(ctx, o.SKU)
	if err != nil {
		return o, false, err
	}
	id, err := c.take(ctx, s, o)
	if err != nil {
		return o, false, err
	}
	if id == o.ID {
		return o, false, c.store(ctx, o)
	}
	return c.earlier(ctx, o.SKU, id)
}

// store makes a held order a row. It may be done again by anybody.
func (c *counter) store(ctx context.Context, o Order) error {
	if err := insert(ctx, c.DB, o); err != nil {
		if _, missing := c.Find(ctx, o.ID); missing != nil {
			return err // still queued
		}
	}
	return c.Redis.HDel(ctx, queueKey(o.SKU), o.ID).Err()
}

// earlier returns the order that was made under the same key.
func (c *counter) earlier(ctx context.Context, sku, id string) (Order, bool, error) {
	o, err := c.Find(ctx, id)
	if !errors.Is(err, ErrNotFound) {
		return o, true, err
	}
	queued, err := c.Redis.HGet(ctx, queueKey(sku), id).Bytes()
	if err != nil {
		return o, true, fmt.Errorf("order %s: %w", id, err)
	}
	if err := json.Unmarshal(queued, &o); err != nil {
		return o, true, err
	}
	return o, true, c.store(ctx, o)
}

func (c *counter) Close(ctx context.Context, o Order, as string) error { return c.closing(ctx, o, as) }

// closeAndRestore leaves the row to be restored until that is done. Whether
// the rest succeeds is of no concern to the caller: the order is closed, and
// the sweep does it again.
func (c *counter) closeAndRestore(ctx context.Context, o Order, as string) error {
	closed, err := closeRow(ctx, c.DB, o, as, false)
	if err == nil && closed {
		_ = c.restoreAndMark(ctx, o)
	}
	return err
}

func (c *counter) restoreAndMark(ctx context.Context, o Order) error {
	if err := c.restore(ctx, o); err != nil {
		return err
	}
	_, err := c.DB.ExecContext(ctx, "UPDATE orders SET restored = TRUE WHERE id = ?", o.ID)
	return err
}

func (c *counter) giveBack(ctx context.Context, o Order) error {
	keys := []string{stockKey(o.SKU), buyersKey(o.SKU), holdsKey(o.SKU)}
	return giveBackScript.Run(ctx, c.Redis, keys, o.ID).Err()
}

func (c *counter) Run(ctx context.Context) error {
	steps := []func(context.Context) error{
		func(ctx context.Context) error { return c.expire(ctx, c.Close) },
		c.restoreClosed, c.storeQueued,
	}
	return sweep(ctx, append(steps, c.also...)...)
}

func (c *counter) restoreClosed(ctx context.Context) error {
	closed, err := c.orders(ctx, "WHERE restored = FALSE AND status IN (?, ?) LIMIT 100", Cancelled, Expired)
	for _, o := range closed {
		err = errors.Join(err, c.restoreAndMark(ctx, o))
	}
	return err
}

// storeQueued stores what was held by somebody who did not come to store it.
func (c *counter) storeQueued(ctx context.Context) error {
	return c.queued(ctx, func(o Order) error {
		if now()-o.CreatedMS < time.Second.Milliseconds() {
			return nil // on its way, most likely
		}
		return c.store(ctx, o)
	})
}

// queued calls f for the orders of all sales that are not known to be rows.
func (c *counter) queued(ctx context.Context, f func(Order) error) error {
	keys, err := c.Redis.Keys(ctx, queueKey("*")).Result()
	for _, key := range keys {
		waiting, e := c.Redis.HVals(ctx, key).Result()
		err = errors.Join(err, e)
		for _, text := range waiting {
			var o Order
			if e := json.Unmarshal([]byte(text), &o); e != nil {
				return e
			}
			err = errors.Join(err, f(o))
		}
	}
	return err
}

func (c *counter) Stock(ctx context.Context, sku string) (s Stock, err error) {
	text, err := c.Redis.Get(ctx, stockKey(sku)).Result()
	if err != nil {
		return s, fmt.Errorf("read stock: %w", err)
	}
	if s.Available, err = strconv.Atoi(text); err != nil {
		return s, err
	}
	err = c.queued(ctx, func(o Order) error {
		_, err := c.Find(ctx, o.ID)
		if errors.Is(err, ErrNotFound) {
			s.Held += o.Quantity
			return nil
		}
		return err
	})
	if err != nil {
		return s, err
	}
	s.Restoring, err = c.sum(ctx, "SELECT SUM(quantity) FROM orders WHERE sku = ? AND restored = FALSE AND status IN (?, ?)", sku, Cancelled, Expired)
	return s, err
}
