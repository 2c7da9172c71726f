package inventory

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
)

// A gate has accepted fewer orders than one node has seen. After the next call of this node, the
// gate neither accepts nor refuses an order of any node until the gate is rebuilt.
func TestGateThatLostWritesIsStale(t *testing.T) {
	unmarked := twin{0, "", &reserveScript, lua("replid", "cooldown", "reserve"), "call('HSET', KEYS[1], 'built_on', built_on)", ""}
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		for asks, ask := range map[string]func(g KeeperGate, sku string) error{
			"a buyer": func(g KeeperGate, sku string) error { return check.Err(g.Reserve(t.Context(), greedy(sku))) },
			"a keeper": func(g KeeperGate, sku string) error {
				found, err := g.Summaries(t.Context(), sku)
				if err == nil && found[0].Stale {
					err = ErrStale
				}
				return err
			},
		} {
			other, sku := goneBack(t, rdb, ask)
			if err := check.Err(other.Reserve(t.Context(), greedy(sku))); !errors.Is(err, ErrStale) {
				t.Errorf("gate at another node after a call of %s: got error %v, want %v", asks, err, ErrStale)
			}
			check.Is(t, check.Err(other.Reserve(t.Context(), order(sku, "new", "bob"))), ErrStale)
			check.Is(t, ask(other, sku), ErrStale)

			shut(t, other, sku)
			install(t, other, sku, first, truth{Terms: terms(2, 1), Available: 0})
			check.Is(t, check.Err(other.Reserve(t.Context(), greedy(sku))), ErrBuyerLimit)
		}
		unmarked.use(t)
		other, sku := goneBack(t, rdb, func(g KeeperGate, sku string) error { return check.Err(g.Reserve(t.Context(), greedy(sku))) })
		check.Is(t, check.Err(other.Reserve(t.Context(), greedy(sku))), ErrBuyerLimit) // the fault of the broken twin
	})
}

// greedy returns a request that no gate accepts.
func greedy(sku string) Request {
	return Request{OrderID: "many", SKU: sku, Buyer: "carl", Quantity: 2, Node: "n"}
}

// goneBack opens a gate and makes it lose an order that one node has seen. Then the node that has
// seen the order calls ask. goneBack returns a node that has not seen the order.
func goneBack(t *testing.T, rdb *redis.Client, ask func(g KeeperGate, sku string) error) (other KeeperGate, sku string) {
	t.Helper()
	knows, other, sku := newGate(rdb, patient), newGate(rdb, patient), newSKU()
	open(t, knows, sku, 2, 1)
	reserve(t, knows, order(sku, "forgotten", "ann"))
	_, err := knows.Summaries(t.Context(), sku)
	check.Must(t, err)
	check.Is(t, check.Err(knows.Reserve(t.Context(), greedy(sku))), ErrBuyerLimit)
	_, err = rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		name := "sale:{" + sku + "}"
		p.HIncrBy(t.Context(), name, "granted", -1)
		p.HIncrBy(t.Context(), name, "available", 1)
		p.HDel(t.Context(), name+":holds", "forgotten")
		p.HDel(t.Context(), name+":buyers", "ann")
		return nil
	})
	check.Must(t, err)
	check.Is(t, ask(knows, sku), ErrStale)
	return other, sku
}
