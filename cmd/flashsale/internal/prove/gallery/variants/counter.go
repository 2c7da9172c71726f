package variants

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A counter is the right base of variants that count units in Redis and store orders
// in a database. Redis takes the units and notes a hold before the row is written. If
// the process crashes in between, the queued order still becomes a row. The hold is
// also the marker for the release: without a hold, no units are released.
//
// A variant replaces one of these steps.
type counter struct {
	tables
	// take takes the order's units and returns the order's id. If the buyer has an
	// order under the same key, take returns the id of that order.
	take func(ctx context.Context, s Sale, o Order) (id string, err error)
	// release returns the units of a closed order, once.
	release func(ctx context.Context, o Order) error
	// closing implements Close.
	closing func(ctx context.Context, o Order, as string) error
	// first contains steps of Run that precede the common ones.
	first []func(context.Context) error
}

func newCounter(s Stores) *counter {
	c := &counter{tables: tables{Stores: s}}
	c.take, c.release, c.closing = c.script("take.lua"), c.releaseHold, c.closeAndRelease
	return c
}

// countedBy returns a constructor of counters that take units by the script file.
func countedBy(file string) func(Stores) Shop {
	return func(s Stores) Shop {
		c := newCounter(s)
		c.take = c.script(file)
		return c
	}
}

// The keys of a sale are in one slot of a Redis cluster.
func stockKey(sku string) string  { return "shop:{" + sku + "}:stock" }  // units
func buyersKey(sku string) string { return "shop:{" + sku + "}:buyers" } // buyer → units
func holdsKey(sku string) string  { return "shop:{" + sku + "}:holds" }  // order id → "units buyer"
func keysKey(sku string) string   { return "shop:{" + sku + "}:keys" }   // buyer/key → order id
func queueKey(sku string) string  { return "shop:{" + sku + "}:queue" }  // order id → order, until the order is a row

//go:embed *.lua
var scripts embed.FS

// load returns the concatenation of some files as one script.
func load(files ...string) *redis.Script {
	var all []byte
	for _, file := range files {
		text, err := scripts.ReadFile(file)
		if err != nil {
			panic(err) // the file is missing in this folder
		}
		all = append(all, text...)
	}
	return redis.NewScript(string(all))
}

var releaseScript = load("release.lua")

func (c *counter) Open(ctx context.Context, s Sale) error {
	if err := c.tables.Open(ctx, s); err != nil {
		return err
	}
	return c.Redis.Set(ctx, stockKey(s.SKU), s.Total, 0).Err()
}

// script returns a take function that runs one script.
func (c *counter) script(file string) func(context.Context, Sale, Order) (string, error) {
	script := load("request.lua", file)
	return func(ctx context.Context, s Sale, o Order) (string, error) {
		queued, err := json.Marshal(o)
		if err != nil {
			return "", err
		}
		keys := []string{stockKey(s.SKU), buyersKey(s.SKU), holdsKey(s.SKU), keysKey(s.SKU), queueKey(s.SKU)}
		reply, err := script.Run(ctx, c.Redis, keys, o.ID, o.Buyer, o.Key, o.Quantity, s.UnitsPerBuyer, queued).Text()
		switch {
		case err != nil:
			return "", fmt.Errorf("take units from the stock: %w", err)
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
	if s.OnPayment {
		return c.promise(ctx, o)
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

// store makes a queued order a row. Repeating it is harmless.
func (c *counter) store(ctx context.Context, o Order) error {
	if err := insert(ctx, c.DB, o); err != nil {
		if _, missing := c.Find(ctx, o.ID); missing != nil {
			return err // still queued
		}
	}
	return c.Redis.HDel(ctx, queueKey(o.SKU), o.ID).Err()
}

// earlier returns the order that has the same key.
func (c *counter) earlier(ctx context.Context, sku, id string) (Order, bool, error) {
	o, err := c.Find(ctx, id)
	if !errors.Is(err, ErrNotFound) {
		return o, true, err
	}
	queued, err := c.Redis.HGet(ctx, queueKey(sku), id).Bytes()
	if err != nil {
		return o, true, fmt.Errorf("read the earlier order %s: %w", id, err)
	}
	if err := json.Unmarshal(queued, &o); err != nil {
		return o, true, err
	}
	return o, true, c.store(ctx, o)
}

// Pay takes the units first if the order has none. If the order was closed in the
// same moment, Pay releases them.
func (c *counter) Pay(ctx context.Context, o Order) error {
	s, err := c.Sale(ctx, o.SKU)
	if err != nil {
		return err
	}
	if s.OnPayment && o.Status == Pending {
		if _, err := c.take(ctx, s, o); err != nil {
			return err
		}
	}
	if err := c.tables.Pay(ctx, o); err != nil || !s.OnPayment {
		return err
	}
	if now, err := c.Find(ctx, o.ID); err != nil || now.Status != Paid {
		return errors.Join(err, c.release(ctx, o))
	}
	return c.store(ctx, o)
}

func (c *counter) Close(ctx context.Context, o Order, as string) error { return c.closing(ctx, o, as) }

// closeAndRelease closes the order, and releases its units if it can. If that fails,
// the order is closed nevertheless, and the sweep repeats the release.
func (c *counter) closeAndRelease(ctx context.Context, o Order, as string) error {
	closed, err := closeRow(ctx, c.DB, o, as, false)
	if err == nil && closed {
		_ = c.releaseAndMark(ctx, o)
	}
	return err
}

func (c *counter) releaseAndMark(ctx context.Context, o Order) error {
	if err := c.release(ctx, o); err != nil {
		return err
	}
	return exec(ctx, c.DB, "UPDATE orders SET released = TRUE WHERE id = ?", o.ID)
}

func (c *counter) releaseHold(ctx context.Context, o Order) error {
	keys := []string{stockKey(o.SKU), buyersKey(o.SKU), holdsKey(o.SKU)}
	return releaseScript.Run(ctx, c.Redis, keys, o.ID).Err()
}

func (c *counter) Run(ctx context.Context) error {
	steps := []func(context.Context) error{
		func(ctx context.Context) error { return c.expire(ctx, c.Close) },
		c.releaseClosed, c.storeQueued,
	}
	return sweep(ctx, append(c.first, steps...)...)
}

func (c *counter) releaseClosed(ctx context.Context) error {
	closed, err := c.orders(ctx, "WHERE released = FALSE AND status IN (?, ?) LIMIT 100", Cancelled, Expired)
	for _, o := range closed {
		err = errors.Join(err, c.releaseAndMark(ctx, o))
	}
	return err
}

// storeQueued stores queued orders whose process has crashed.
func (c *counter) storeQueued(ctx context.Context) error {
	return c.queued(ctx, func(o Order) error {
		if now()-o.CreatedMS < time.Second.Milliseconds() {
			return nil // the process that made the order is probably about to store it
		}
		return c.store(ctx, o)
	})
}

// queued calls f for the queued orders of all sales. Some may already be rows.
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
	if s.Available, err = c.Redis.Get(ctx, stockKey(sku)).Int(); err != nil {
		return s, fmt.Errorf("read the stock: %w", err)
	}
	err = c.queued(ctx, func(o Order) error {
		_, err := c.Find(ctx, o.ID)
		if errors.Is(err, ErrNotFound) {
			s.Queued += o.Quantity
			return nil
		}
		return err
	})
	if err != nil {
		return s, err
	}
	s.Restoring, err = sum(ctx, c.DB, "SELECT SUM(quantity) FROM orders WHERE sku = ? AND released = FALSE AND status IN (?, ?)", sku, Cancelled, Expired)
	return s, err
}
