package inventory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// The gate has far more holds and buyers than Lua can pass to one command.
func TestMemoryOf20000Buyers(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const n = 20_000
		g, sku := newGate(rdb, Config{Timeout: time.Minute, SoldOutFor: time.Hour}), newSKU() // the memory outlives the test
		install(t, g, sku, 0, bigStock(n, n))
		untilSoldOut(t, g, sku)
		refused := 0
		for i := range n {
			if remembers(g, sku, fmt.Sprint("buyer-", i)) {
				t.Fatalf("buyer-%d with an order: got a refusal from memory, want the call sent to Redis", i)
			}
			if remembers(g, sku, fmt.Sprint("stranger-", i)) {
				refused++
			}
		}
		if refused != n { // fewer would need a collision of two hashes of 64 bits
			t.Errorf("strangers: got %d of %d refused from memory, want all", refused, n)
		}
	})
}

// Two nodes sell units that are released all the time, and all buyers with an order ask
// again.
func TestMemoryUnderLoad(t *testing.T) {
	t.Parallel()
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		t.Parallel()
		sku := newSKU()
		nodes := []KeeperGate{newGate(rdb, patient), newGate(rdb, patient)}
		keeper := newGate(rdb, Config{Timeout: time.Minute, QueueLimit: 1e6})
		open(t, keeper, sku, 5, 1)
		ctx, cancel := context.WithCancel(check.Context(t))
		defer cancel()
		orders, refusals := 20, int64(100) // few refusals: a busy machine often exceeds the 100 ms of the memory
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
						t.Errorf("buyer %s with a new order: got a refusal from the memory of the same node, want none", buyer)
					}
					mu.Lock()
					winners = append(winners, w)
					old := winners[rand.IntN(len(winners))]
					mu.Unlock()
					won <- buyer
					began := time.Now()
					for k, g := range nodes {
						if remembers(g, sku, old.buyer) {
							t.Errorf("buyer %s, accepted by node %d %v ago: got a refusal from the memory of node %d, want none",
								old.buyer, old.node, began.Sub(old.at), k)
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
		cancelOneByOne(ctx, t, keeper, sku, won, enough) // between two releases, the sale is sold out
		cancel()
		running.Wait()
		if !enough() {
			t.Errorf("load: got %d orders and %d refusals from memory, want %d and %d", len(winners), refused.Load(), orders, refusals)
		}
	})
}

// cancelOneByOne releases the units of the winners until enough reports true or ctx ends.
func cancelOneByOne(ctx context.Context, t *testing.T, keeper KeeperGate, sku string, won <-chan string, enough func() bool) {
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

func TestRefusalsAllocateNothing(t *testing.T) {
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
				if i%50 == 0 { // asks the gate, too
					check.Is(t, check.Err(g.Reserve(t.Context(), stranger(sku))), ErrSoldOut)
				}
				check.Is(t, ask(t.Context(), g, stranger(sku)), ErrSoldOut)
				_ = remembers(g, fmt.Sprint("unknown ", strangers.Load()), "new buyer")
			}
		}
		refuse(1000) // fills the pools
		before := heap()
		refuse(100_000)
		if grown := heap() - before; grown > 256<<10 {
			t.Errorf("heap: got %d KiB more after 100,000 refusals, want at most 256", grown>>10)
		}
		if n := testing.AllocsPerRun(1000, func() { remembers(g, sku, "new buyer") }); n > 0 {
			t.Errorf("refusal from memory: got %v allocations, want none", n)
		}
	})
}
