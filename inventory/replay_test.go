package inventory

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
)

// A key is remembered for ReplayFor at least and twice that at most, over the
// changes from one hash to the next, and Redis drops all of it by itself.
func TestKeysAreRememberedForTheirTime(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const life = time.Minute
		remembers := func() (once, twice bool) {
			g, sku := New(rdb, Config{ReplayFor: life}), newSKU()
			open(t, g, sku, 100, 100)
			// later makes the hash in use as old as it gets.
			later := func() {
				since := time.Now().Add(-life).UnixMilli()
				check(t, rdb.HSet(t.Context(), keys.Replays(sku), "since", since).Err())
			}
			ask := func(id, key string) Reservation {
				return reserve(t, g, Request{OrderID: id, SKU: sku, Buyer: "ann", Quantity: 1, Key: key, Fingerprint: "p"})
			}
			ask("a", "first")
			later()
			ask("b", "second")
			got := ask("c", "first")
			once = got.Replayed && got.OrderID == "a"
			later()
			ask("d", "third")
			got = ask("e", "second")
			once = once && got.Replayed && got.OrderID == "b"
			for _, key := range []string{keys.Replays(sku), keys.OlderReplays(sku)} {
				if left := rdb.TTL(t.Context(), key).Val(); left <= life || left > 2*life {
					t.Errorf("%s goes in %v, twice %v was wanted", key, left, life)
				}
			}
			return once, ask("f", "first").Replayed
		}
		if once, twice := remembers(); !once || twice {
			t.Errorf("remembered over one change: %v, over two: %v", once, twice)
		}
		reserveTwin("forgets at each change", " or older[keyed]", " or nil").use(t)
		if once, _ := remembers(); once {
			t.Error("the check can't fail")
		}
	})
}
