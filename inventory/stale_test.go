package inventory

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A gate has let fewer orders in than one node knows of: it has forgotten some.
// From when that node asks, no node refuses anybody, until the gate is rebuilt.
func TestGateThatWentBack(t *testing.T) {
	unmarked := twin{0, "", &reserveScript, lua("replid", "reserve"), "call('HSET', KEYS[1], 'built_on', built_on)", ""}
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for asks, ask := range map[string]func(g *Gate, sku string) error{
			"a buyer": func(g *Gate, sku string) error { return errOf(g.Reserve(t.Context(), greedy(sku))) },
			"a keeper": func(g *Gate, sku string) error {
				found, err := g.Summaries(t.Context(), sku)
				if err == nil && found[0].Stale {
					err = ErrStale
				}
				return err
			},
		} {
			other, sku := goneBack(t, rdb, ask)
			if err := errOf(other.Reserve(t.Context(), greedy(sku))); !errors.Is(err, ErrStale) {
				t.Errorf("%s has noticed; another node says %v", asks, err)
			}
			reserve(t, other, order(sku, "new", "bob")) // by the count alone, nobody could tell any more
			is(t, ask(other, sku), ErrStale)

			shut(t, other, sku)
			check(t, rdb.Del(t.Context(), "sale:{"+sku+"}:queue").Err())
			install(t, other, sku, first, truth{Terms: terms(2, 1), Available: 0})
			is(t, errOf(other.Reserve(t.Context(), greedy(sku))), ErrBuyerLimit)
		}
		unmarked.use(t)
		other, sku := goneBack(t, rdb, func(g *Gate, sku string) error { return errOf(g.Reserve(t.Context(), greedy(sku))) })
		is(t, errOf(other.Reserve(t.Context(), greedy(sku))), ErrBuyerLimit) // the twin's fault
	})
}

// greedy is a request that only a refusal answers.
func greedy(sku string) Request {
	return Request{OrderID: "many", SKU: sku, Buyer: "carl", Quantity: 2, Node: "n"}
}

// goneBack opens a gate that forgets an order. The node that knows of it asks, and
// another does not know.
func goneBack(t *testing.T, rdb *redis.Client, ask func(g *Gate, sku string) error) (other *Gate, sku string) {
	t.Helper()
	knows, other, sku := New(rdb, Config{}), New(rdb, Config{}), newSKU()
	open(t, knows, sku, 2, 1)
	reserve(t, knows, order(sku, "forgotten", "ann"))
	_, err := knows.Summaries(t.Context(), sku)
	check(t, err)
	is(t, errOf(knows.Reserve(t.Context(), greedy(sku))), ErrBuyerLimit)
	_, err = rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		name := "sale:{" + sku + "}"
		p.HIncrBy(t.Context(), name, "granted", -1)
		p.HIncrBy(t.Context(), name, "available", 1)
		p.HDel(t.Context(), name+":holds", "forgotten")
		p.HDel(t.Context(), name+":buyers", "ann")
		return nil
	})
	check(t, err)
	is(t, ask(knows, sku), ErrStale)
	return other, sku
}

// One gate is stale and rests, since a unit came back to it. Another one is gone. The
// gate that is made anew rests, too, and says no "sold out" meanwhile: more units may
// have been left all along.
func TestRebuiltGateHasNotSoldOut(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		ctx := t.Context()
		for what, harm := range map[string]func(name string) (epoch int64, _ error){
			"stale": func(name string) (int64, error) {
				return first, rdb.HSet(ctx, name, "built_on", "?", "resume_at", time.Now().Add(time.Minute).UnixMilli()).Err()
			},
			"gone": func(name string) (int64, error) { return 0, rdb.Del(ctx, name).Err() },
		} {
			g, sku := New(rdb, Config{}), newSKU()
			open(t, g, sku, 2, 1)
			was, err := harm("sale:{" + sku + "}")
			check(t, err)
			check(t, g.Shut(ctx, sku, was, false))
			if ok, err := build(ctx, g, sku, was, first+1, truth{Terms: terms(2, 1), Available: 1}); !ok || err != nil {
				t.Fatalf("%s: %v, %v", what, ok, err)
			}
			if err := errOf(g.Reserve(t.Context(), order(sku, "new", "bob"))); err != nil && !errors.Is(err, ErrRebuilding) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
