package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// ask refuses from memory if it can, and asks the gate otherwise, as package shop does.
func ask(ctx context.Context, g KeeperGate, r Request) error {
	if remembers(g, r.SKU, r.Buyer) {
		return ErrSoldOut
	}
	_, err := g.Reserve(ctx, r)
	return err
}

// remembers reports whether g refuses the buyer from memory.
func remembers(g KeeperGate, sku, buyer string) bool {
	_, soldOut := g.KnownSoldOut(sku, buyer)
	return soldOut
}

var strangers atomic.Int64

// stranger returns a request of a buyer who has had no order.
func stranger(sku string) Request {
	n := strangers.Add(1)
	return order(sku, fmt.Sprint("s", n), fmt.Sprint("stranger-", n))
}

// untilSoldOut orders for new buyers until g refuses them from memory, without asking Redis.
func untilSoldOut(t *testing.T, g KeeperGate, sku string) {
	t.Helper()
	check.Eventually(t, "the node remembers that the sale is sold out", func() bool {
		if remembers(g, sku, "new buyer") {
			return true
		}
		check.Is(t, check.Err(g.Reserve(t.Context(), stranger(sku))), ErrSoldOut)
		return false
	})
}

// soon reserves units that have been released to an empty gate, after the cooldown.
func soon(t *testing.T, g KeeperGate, r Request) {
	t.Helper()
	check.Eventually(t, r.Buyer+" has a unit", func() bool {
		_, err := g.Reserve(t.Context(), r)
		return err == nil
	})
}

// release releases the units of an order.
func release(t *testing.T, g KeeperGate, sku string, epoch int64, id string) {
	t.Helper()
	if units, err := g.ReleaseHolds(t.Context(), sku, epoch, []string{id}); err != nil || units == 0 {
		t.Fatalf("release %s: got %d units, error %v, want at least one", id, units, err)
	}
}

// In the second half of the memory's lifetime, one caller asks Redis. If it receives no
// answer, the next caller asks a quarter of the lifetime later.
func TestMemoryRefusesWithoutCalls(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		client, commands := counted(t, rdb)
		g, sku := newGate(client, Config{Timeout: time.Minute, SoldOutFor: 4 * time.Hour}), newSKU()
		open(t, g, sku, 1, 1)
		reserve(t, g, order(sku, "o", "ann"))
		untilSoldOut(t, g, sku)
		if epoch, soldOut := g.KnownSoldOut(sku, "bob"); epoch != first || !soldOut {
			t.Errorf("remembered sale: got epoch %d, sold out %v, want %d and true", epoch, soldOut, first)
		}
		s := g.state(sku)
		for i, c := range []struct {
			left, askedBefore time.Duration
			asks              int64
		}{
			{4 * time.Hour, 4 * time.Hour, 0}, {2*time.Hour + time.Minute, 4 * time.Hour, 0},
			{2*time.Hour - time.Minute, 2 * time.Hour, 1}, {2*time.Hour - time.Minute, 50 * time.Minute, 0},
		} {
			known := *s.known.Load()
			known.until = time.Now().Add(c.left)
			s.known.Store(&known)
			s.asked.Store(int64(time.Since(started) - c.askedBefore))
			commands.Store(0)
			for range 1000 {
				check.Is(t, ask(t.Context(), g, stranger(sku)), ErrSoldOut)
			}
			if n := commands.Load(); n != c.asks {
				t.Errorf("commands to Redis in case %d: got %d, want %d", i, n, c.asks)
			}
		}
	})
}

// A unit is released, and a buyer gets it by one node. Another node that remembers "sold out"
// must not refuse this buyer, because the request may be a replay.
func TestMemoryEndsBeforeCooldown(t *testing.T) {
	t.Parallel()
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		refused := func(t *testing.T, cfg Config) bool {
			a, b, sku := newGate(rdb, patient), newGate(rdb, cfg), newSKU()
			open(t, a, sku, 1, 1)
			reserve(t, a, order(sku, "o", "ann"))
			untilSoldOut(t, b, sku)
			release(t, a, sku, first, "o")
			greedy := stranger(sku)
			greedy.Quantity = 2 // more than the gate has: it takes nothing
			check.Eventually(t, "bob has the unit", func() bool {
				_ = ask(t.Context(), b, greedy) // keeps the memory of b alive
				_, err := a.Reserve(t.Context(), order(sku, "p", "bob"))
				return err == nil
			})
			return remembers(b, sku, "bob")
		}
		rounds := 3
		if servertest.Thorough() {
			rounds = 10
		}
		for range rounds {
			if refused(t, patient) {
				t.Error("replay of bob: got a refusal from memory, want it sent to the gate")
			}
		}
		if !refused(t, Config{Timeout: time.Minute, SoldOutFor: time.Minute}) {
			t.Error("replay of bob with a memory longer than the cooldown: got no refusal, so the check proves nothing")
		}
	})
}

// Requests of buyers who have had an order reach the gate, because they may be replays.
func TestMemoryNeverRefusesBuyersWithOrders(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, other, sku := newGate(rdb, patient), newGate(rdb, patient), newSKU()
		open(t, g, sku, 3, 1)
		mustAsk := func(who string) {
			t.Helper()
			if remembers(g, sku, who) {
				t.Errorf("buyer %s with an order: got a refusal from memory, want the request sent to the gate", who)
			}
		}
		reserve(t, g, order(sku, "a", "ann"))
		reserve(t, other, order(sku, "b", "bob at another node"))
		reserve(t, g, order(sku, "c", "cyd, who cancels"))
		release(t, g, sku, first, "c")
		soon(t, g, order(sku, "d", "dan, who gets that unit"))
		untilSoldOut(t, g, sku)
		mustAsk("ann")
		mustAsk("bob at another node")
		mustAsk("cyd, who cancels")
		mustAsk("dan, who gets that unit")

		// A unit is released while the memory is valid, and a new buyer gets it.
		release(t, g, sku, first, "a")
		soon(t, g, order(sku, "e", "eve, just now"))
		mustAsk("eve, just now")
		untilSoldOut(t, g, sku)
		mustAsk("eve, just now")
		mustAsk("ann")

		// The same by another node. This node learns of the order with its next call.
		release(t, other, sku, first, "b")
		soon(t, other, order(sku, "f", "fay at another node"))
		check.Eventually(t, "the node no longer refuses fay from memory", func() bool { return !remembers(g, sku, "fay at another node") })
		untilSoldOut(t, g, sku)
		mustAsk("fay at another node")

		// After a rebuild, some buyers are known only from the database.
		shut(t, g, sku)
		queue, err := g.ReadQueue(t.Context(), sku, "", 100)
		check.Must(t, err)
		check.Must(t, check.Err(g.Ack(t.Context(), sku, queue, nil)))
		install(t, g, sku, first, truth{
			Terms: terms(1, 1), Available: 1, Buyers: map[string]int64{"ann": 0, "gus, long ago": 0},
		})
		soon(t, g, order(sku, "h", "hal"))
		untilSoldOut(t, g, sku)
		mustAsk("gus, long ago")
		mustAsk("ann")
		mustAsk("hal")
	})
}

// If a cooldown ends further ahead than its full length, Redis's clock was set back after it
// began. The gate then treats the cooldown as over.
func TestCooldownIsBounded(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := newGate(rdb, patient), newSKU()
		open(t, g, sku, 1, 1)
		check.Must(t, rdb.HSet(t.Context(), keys.Sale(sku), "resume_at", time.Now().Add(time.Minute).UnixMilli()).Err())
		reserve(t, g, order(sku, "o", "ann"))
	})
}

// The replies to two concurrent calls may arrive in the wrong order.
func TestOlderReplyIsIgnored(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := newGate(rdb, patient), newSKU()
		open(t, g, sku, 1, 1)
		reserve(t, g, order(sku, "o", "ann"))
		untilSoldOut(t, g, sku)
		s := g.state(sku)
		was := s.known.Load().version
		now := version{epoch: was.epoch, granted: was.granted + 1} // one more order was accepted
		s.saw(time.Now(), now, 0)
		s.saw(time.Now(), was, 0)
		if remembers(g, sku, "new buyer") {
			t.Error("memory after an older reply: got a refusal, want none")
		}
	})
}

// A gate with too few units for one order may have enough for a smaller order.
func TestTooFewUnitsIsNotRemembered(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := newGate(rdb, patient), newSKU()
		open(t, g, sku, 2, 3)
		for i := range 20 {
			r := stranger(sku)
			r.Quantity = 3
			if _, err := g.Reserve(t.Context(), r); !errors.Is(err, ErrSoldOut) || remembers(g, sku, "new buyer") {
				t.Fatalf("request %d for more units than are left: got error %v, remembered %v, want %v and false",
					i, err, remembers(g, sku, "new buyer"), ErrSoldOut)
			}
		}
		check.Must(t, ask(t.Context(), g, stranger(sku)))
		check.Must(t, ask(t.Context(), g, stranger(sku)))
		untilSoldOut(t, g, sku)
	})
}

// A gate that is being rebuilt may have lost its stock. Its replies must not renew a
// memory of "sold out".
func TestRebuildIsNotSoldOut(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := newGate(rdb, patient), newSKU()
		open(t, g, sku, 1, 1)
		reserve(t, g, order(sku, "o", "ann"))
		untilSoldOut(t, g, sku)
		shut(t, g, sku)
		check.Eventually(t, "the gate is being rebuilt, and the memory has expired", func() bool {
			err := ask(t.Context(), g, stranger(sku))
			return errors.Is(err, ErrRebuilding) && time.Now().After(g.state(sku).known.Load().until)
		})
		for range 100 {
			check.Is(t, ask(t.Context(), g, stranger(sku)), ErrRebuilding)
		}
	})
}
