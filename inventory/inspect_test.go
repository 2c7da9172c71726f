package inventory

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
	"flashsale/loadtest/servers/servertest/check"
)

// Tally returns the gate at one instant, with its queue and the given orders and buyers.
func TestTally(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := newGate(rdb, patient), newSKU()
		if none, err := g.Tally(t.Context(), sku, []string{"a"}, nil); err != nil || none.Open {
			t.Errorf("tally of a missing gate: got %+v, error %v, want a View that is not open", none, err)
		}
		install(t, g, sku, 0, truth{
			Terms: terms(10, 9), Available: 8, Buyers: map[string]int64{"zoe": 2, "bob": 0},
			Holds: []Hold{{OrderID: "z", Buyer: "zoe", Quantity: 2, AcceptedAt: time.Now()}},
		})
		reserve(t, g, Request{OrderID: "a", SKU: sku, Buyer: "ann", Quantity: 3, Key: "k", Fingerprint: "p", Node: "n"})
		reserve(t, g, order(sku, "b", "ann"))
		got, err := g.Tally(t.Context(), sku, []string{"gone", "a", "z"}, []string{"nobody", "ann", "zoe"})
		check.Must(t, err)
		if !got.Open || got.Epoch != 1 || got.Terms.Total != 10 || got.Available != 4 || got.Holds != 3 || got.Buyers != 3 || got.QueuedOrders != 2 || got.QueueTooLong ||
			got.QueuedUnits() != 4 || len(got.Orders) != 2 || got.Orders[0].Buyer != "ann" {
			t.Errorf("tally: got %+v, want ann's and zoe's orders", got)
		}
		if want := map[string]bool{"gone": false, "a": true, "z": true}; !maps.Equal(got.HasHold, want) {
			t.Errorf("holds in the tally: got %v, want %v", got.HasHold, want)
		}
		if want := map[string]int64{"nobody": 0, "ann": 4, "zoe": 2}; !maps.Equal(got.Units, want) {
			t.Errorf("units in the tally: got %v, want %v", got.Units, want)
		}
		buyers, next, err := g.ScanBuyers(t.Context(), sku, 0)
		check.Must(t, err)
		if slices.Sort(buyers); next != 0 || !slices.Equal(buyers, []string{"ann", "zoe"}) {
			t.Errorf("buyers with units: got %v, next page %d, want ann and zoe", buyers, next)
		}
	})
}

// Tally does not read a long queue. It reads a short queue even if `queued` is wrong.
func TestTallyOfALongQueue(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := newGate(rdb, patient), newSKU()
		open(t, g, sku, 10, 9)
		reserve(t, g, order(sku, "a", "ann"))
		check.Must(t, rdb.HSet(t.Context(), "sale:{"+sku+"}", "queued", 1_000_000).Err())
		got, err := g.Tally(t.Context(), sku, nil, nil)
		check.Must(t, err)
		if got.QueueTooLong || got.QueuedUnits() != 1 || got.QueuedOrders != 1_000_000 {
			t.Errorf("tally of one order, counted as a million: got %+v, want the order", got)
		}
		pipe := rdb.Pipeline()
		for range maxTally {
			pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: "sale:{" + sku + "}:queue", Values: []string{"epoch", "1", "x", "1 0 0 1:b/"}})
		}
		check.Must(t, check.Err(pipe.Exec(t.Context())))
		if got, err = g.Tally(t.Context(), sku, nil, nil); err != nil || !got.QueueTooLong || !got.Open || got.Available != 9 {
			t.Errorf("tally of a long queue: got %+v, error %v, want Long", got, err)
		}
	})
}

// If the call to one gate fails, FindHold returns an error rather than no hold.
func TestHeldReportsFailures(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, broken := newGate(rdb, patient), newSKU()
		check.Must(t, rdb.Set(t.Context(), keys.Holds(broken), "no hash", 0).Err())
		if _, _, ok, err := g.FindHold(t.Context(), "o", newSKU(), broken); ok || err == nil {
			t.Errorf("hold in a failing Redis: got %v, error %v, want an error", ok, err)
		}
	})
}

// The pages contain every order that has a hold during the whole scan.
func TestScanHolds(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const n = 3000
		g, sku := newGate(rdb, patient), newSKU()
		holds := make([]Hold, n)
		for i := range holds {
			holds[i] = Hold{OrderID: fmt.Sprintf("o%d", i), Buyer: "b", Quantity: 1, AcceptedAt: time.Now()}
		}
		install(t, g, sku, 0, truth{Terms: terms(n, n), Holds: holds, Buyers: map[string]int64{"b": n}})
		seen := map[string]bool{}
		for cursor := uint64(0); ; {
			ids, next, err := g.ScanHolds(t.Context(), sku, cursor)
			check.Must(t, err)
			for _, id := range ids {
				seen[id] = true
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
		if len(seen) != n {
			t.Errorf("scan of the holds: got %d orders, want %d", len(seen), n)
		}
	})
}
