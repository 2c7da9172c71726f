package inventory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// ask is what orders does: memory first.
func ask(ctx context.Context, g Keeping, r Request) error {
	if remembers(g, r.SKU, r.Buyer) {
		return ErrSoldOut
	}
	_, err := g.Reserve(ctx, r)
	return err
}

// remembers reports whether g refuses the buyer from memory.
func remembers(g Keeping, sku, buyer string) bool {
	_, soldOut := g.KnownSoldOut(sku, buyer)
	return soldOut
}

var strangers atomic.Int64

// stranger is a request of a buyer who has had no order.
func stranger(sku string) Request {
	n := strangers.Add(1)
	return order(sku, fmt.Sprint("s", n), fmt.Sprint("stranger-", n))
}

// untilSoldOut waits until g refuses strangers from memory.
func untilSoldOut(t *testing.T, g Keeping, sku string) {
	t.Helper()
	check.Eventually(t, "sold out by memory", func() bool {
		if remembers(g, sku, "anybody") {
			return true
		}
		check.Is(t, check.Err(g.Reserve(t.Context(), stranger(sku))), ErrSoldOut)
		return false
	})
}

// soon reserves what has come to an empty gate, and rests for a moment.
func soon(t *testing.T, g Keeping, r Request) {
	t.Helper()
	check.Eventually(t, r.Buyer+" has a unit", func() bool {
		_, err := g.Reserve(t.Context(), r)
		return err == nil
	})
}

// release gives the units of an order back.
func release(t *testing.T, g Keeping, sku string, epoch int64, id string) {
	t.Helper()
	if units, err := g.Release(t.Context(), sku, epoch, []string{id}); err != nil || units == 0 {
		t.Fatalf("release %s: %d, %v", id, units, err)
	}
}

// In the second half of the memory's lifetime, one caller asks Redis. If it receives no
// answer, the next caller asks a quarter of the lifetime later.
func TestRefusingAsksNobody(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		client, commands := counted(t, rdb)
		g, sku := newGate(client, Config{Timeout: time.Minute, SoldOutFor: 4 * time.Hour}), newSKU()
		open(t, g, sku, 1, 1)
		reserve(t, g, order(sku, "o", "ann"))
		untilSoldOut(t, g, sku)
		if epoch, soldOut := g.KnownSoldOut(sku, "bob"); epoch != first || !soldOut {
			t.Errorf("epoch %d, sold out %v", epoch, soldOut)
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
				t.Errorf("case %d: %d commands, want %d", i, n, c.asks)
			}
		}
	})
}

// Units come back, and somebody gets one of them by one node. Another node that
// remembers "sold out" must not refuse that buyer: the request may be a replay.
func TestNoMemoryOutlivesTheFirstSale(t *testing.T) {
	t.Parallel()
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		refused := func(t *testing.T, cfg Config) bool {
			a, b, sku := newGate(rdb, patient), newGate(rdb, cfg), newSKU()
			open(t, a, sku, 1, 1)
			reserve(t, a, order(sku, "o", "ann"))
			untilSoldOut(t, b, sku)
			release(t, a, sku, first, "o")
			greedy := stranger(sku)
			greedy.Quantity = 2 // more than there are: it takes nothing
			check.Eventually(t, "bob has the unit", func() bool {
				_ = ask(t.Context(), b, greedy) // others keep coming to b
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
				t.Error("bob's replay is refused from memory")
			}
		}
		if !refused(t, Config{Timeout: time.Minute, SoldOutFor: time.Minute}) {
			t.Error("a memory that lasts for longer than units rest passes: the check can't fail")
		}
	})
}

// Whoever has had an order gets through to the gate: the request may be a replay.
func TestMemoryNeverRefusesWhoHadAnOrder(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, other, sku := newGate(rdb, patient), newGate(rdb, patient), newSKU()
		open(t, g, sku, 3, 1)
		let := func(who string) {
			t.Helper()
			if remembers(g, sku, who) {
				t.Errorf("%s is refused", who)
			}
		}
		reserve(t, g, order(sku, "a", "ann"))
		reserve(t, other, order(sku, "b", "bob, by another node"))
		reserve(t, g, order(sku, "c", "cyd, who cancels"))
		release(t, g, sku, first, "c")
		soon(t, g, order(sku, "d", "dan, who gets that unit"))
		untilSoldOut(t, g, sku)
		let("ann")
		let("bob, by another node")
		let("cyd, who cancels")
		let("dan, who gets that unit")

		// A unit comes back while the memory is good, and a caller who was on the
		// way already gets it.
		release(t, g, sku, first, "a")
		soon(t, g, order(sku, "e", "eve, just now"))
		let("eve, just now")
		untilSoldOut(t, g, sku)
		let("eve, just now")
		let("ann")

		// The same on another node: this one learns of it when it asks next.
		release(t, other, sku, first, "b")
		soon(t, other, order(sku, "f", "fay, by another node"))
		check.Eventually(t, "fay is let through", func() bool { return !remembers(g, sku, "fay, by another node") })
		untilSoldOut(t, g, sku)
		let("fay, by another node")

		// A rebuild, and a buyer whom only the database remembers.
		shut(t, g, sku)
		queue, err := g.Queue(t.Context(), sku, "", 100)
		check.Must(t, err)
		check.Must(t, check.Err(g.Ack(t.Context(), sku, queue, nil)))
		install(t, g, sku, first, truth{
			Terms: terms(1, 1), Available: 1, Buyers: map[string]int64{"ann": 0, "gus, long ago": 0},
		})
		soon(t, g, order(sku, "h", "hal"))
		untilSoldOut(t, g, sku)
		let("gus, long ago")
		let("ann")
		let("hal")
	})
}

// If the end of a pause is further ahead than a pause lasts, Redis's clock was set back
// since the pause began. The pause is over.
func TestRestIsBounded(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := newGate(rdb, patient), newSKU()
		open(t, g, sku, 1, 1)
		check.Must(t, rdb.HSet(t.Context(), keys.Sale(sku), "resume_at", time.Now().Add(time.Minute).UnixMilli()).Err())
		reserve(t, g, order(sku, "o", "ann"))
	})
}

// Two calls in flight may come back in the wrong order.
func TestOlderAnswerComesInLast(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := newGate(rdb, patient), newSKU()
		open(t, g, sku, 1, 1)
		reserve(t, g, order(sku, "o", "ann"))
		untilSoldOut(t, g, sku)
		if epoch, soldOut := g.KnownSoldOut(sku, "bob"); epoch != first || !soldOut {
			t.Errorf("epoch %d, sold out %v", epoch, soldOut)
		}
		s := g.state(sku)
		was := s.known.Load().version
		now := version{epoch: was.epoch, granted: was.granted + 1} // somebody has been let in
		s.saw(time.Now(), now, 0)
		s.saw(time.Now(), was, 0)
		if remembers(g, sku, "whoever that was") {
			t.Error("refused by an answer that was overtaken")
		}
	})
}

// "Too few left for 3" says nothing about 1.
func TestTooFewIsNotSoldOut(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := newGate(rdb, patient), newSKU()
		open(t, g, sku, 2, 3)
		for i := range 20 {
			r := stranger(sku)
			r.Quantity = 3
			if _, err := g.Reserve(t.Context(), r); !errors.Is(err, ErrSoldOut) || remembers(g, sku, "anybody") {
				t.Fatalf("request %d: %v, sold out %v", i, err, remembers(g, sku, "anybody"))
			}
		}
		check.Must(t, ask(t.Context(), g, stranger(sku)))
		check.Must(t, ask(t.Context(), g, stranger(sku)))
		untilSoldOut(t, g, sku)
	})
}

// A gate that is being rebuilt may have forgotten its stock: what it says of
// it keeps nobody refusing.
func TestRebuildIsNotSoldOut(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := newGate(rdb, patient), newSKU()
		open(t, g, sku, 1, 1)
		reserve(t, g, order(sku, "o", "ann"))
		untilSoldOut(t, g, sku)
		shut(t, g, sku)
		check.Eventually(t, "being rebuilt, and what was remembered before is over", func() bool {
			err := ask(t.Context(), g, stranger(sku))
			return errors.Is(err, ErrRebuilding) && time.Now().After(g.state(sku).known.Load().until)
		})
		for range 100 {
			check.Is(t, ask(t.Context(), g, stranger(sku)), ErrRebuilding)
		}
	})
}

func TestMemoryOf20000Buyers(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const n = 20_000
		g, sku := newGate(rdb, Config{Timeout: time.Minute, SoldOutFor: time.Hour}), newSKU() // longer than the test
		install(t, g, sku, 0, bigStock(n, n))
		untilSoldOut(t, g, sku)
		refused := 0
		for i := range n {
			if remembers(g, sku, fmt.Sprint("buyer-", i)) {
				t.Fatalf("buyer-%d is refused", i)
			}
			if remembers(g, sku, fmt.Sprint("nobody-", i)) {
				refused++
			}
		}
		if refused != n { // two of 2⁶⁴ hashes would have to meet
			t.Errorf("%d of %d strangers refused", refused, n)
		}
	})
}

// All of it at once: two nodes, units that come back all the time, and
// everybody who got one asks again.
func TestMemoryUnderWay(t *testing.T) {
	t.Parallel()
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		t.Parallel()
		sku := newSKU()
		nodes := []Keeping{newGate(rdb, patient), newGate(rdb, patient)}
		keeper := newGate(rdb, Config{Timeout: time.Minute, QueueLimit: 1e6})
		open(t, keeper, sku, 5, 1)
		ctx, cancel := context.WithCancel(check.Context(t))
		defer cancel()
		orders, refusals := 20, int64(100) // few refusals, because memory is valid for only 100 ms, which a busy machine often exceeds
		if servertest.Thorough() {
			orders, refusals = 50, 200
		}

		type got struct {
			node  int
			buyer string
			at    time.Time
		}
		var mu sync.Mutex
		var winners []got
		var refused atomic.Int64
		won := make(chan string, 100_000)
		var running sync.WaitGroup
		for i := range 8 {
			running.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					node, buyer := n%2, fmt.Sprint("buyer-", i, "-", n)
					if remembers(nodes[node], sku, buyer) {
						refused.Add(1)
						time.Sleep(time.Millisecond) // leaves CPU time to Redis
						continue
					}
					if ask(context.WithoutCancel(ctx), nodes[node], order(sku, buyer, buyer)) != nil {
						continue
					}
					w := got{node, buyer, time.Now()}
					if remembers(nodes[node], sku, buyer) {
						t.Errorf("%s, just let in, is refused by the same node", buyer)
					}
					mu.Lock()
					winners = append(winners, w)
					old := winners[rand.IntN(len(winners))]
					mu.Unlock()
					won <- buyer
					began := time.Now()
					for k, g := range nodes {
						if remembers(g, sku, old.buyer) {
							t.Errorf("%s, let in by node %d %v ago, is refused by node %d", old.buyer, old.node, began.Sub(old.at), k)
						}
					}
				}
			})
		}
		enough := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(winners) >= orders && refused.Load() >= refusals
		}
		cancelOneByOne(ctx, t, keeper, sku, won, enough) // in between all is sold out
		cancel()
		running.Wait()
		if !enough() {
			t.Errorf("only %d orders and %d refusals from memory", len(winners), refused.Load())
		}
	})
}

// cancelOneByOne gives the units of those who won back, until that is enough or ctx
// ends.
func cancelOneByOne(ctx context.Context, t *testing.T, keeper Keeping, sku string, won <-chan string, enough func() bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !enough() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		select {
		case buyer := <-won:
			release(t, keeper, sku, first, buyer)
		case <-ctx.Done():
			return
		}
	}
}

func TestRefusalsCostNoMemory(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g, sku := newGate(rdb, Config{Timeout: time.Minute, SoldOutFor: time.Hour}), newSKU()
		open(t, g, sku, 1, 1)
		reserve(t, g, order(sku, "o", "ann"))
		untilSoldOut(t, g, sku)
		heap := func() int64 {
			var m runtime.MemStats
			for range 3 {
				runtime.GC()
			}
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		refuse := func(n int) {
			for i := range n {
				if i%50 == 0 { // a refusal by the gate
					check.Is(t, check.Err(g.Reserve(t.Context(), stranger(sku))), ErrSoldOut)
				}
				check.Is(t, ask(t.Context(), g, stranger(sku)), ErrSoldOut)
				_ = remembers(g, fmt.Sprint("unheard of ", strangers.Load()), "anybody")
			}
		}
		refuse(1000) // pools fill
		before := heap()
		refuse(100_000)
		if grown := heap() - before; grown > 256<<10 {
			t.Errorf("the heap grew by %d KiB over 100,000 refusals", grown>>10)
		}
		if n := testing.AllocsPerRun(1000, func() { remembers(g, sku, "anybody") }); n > 0 {
			t.Errorf("%v allocations for a refusal", n)
		}
	})
}
