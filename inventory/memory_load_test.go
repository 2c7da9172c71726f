package inventory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
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
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		releases := 20
		if servertest.Thorough() {
			releases = 100
		}

		type got struct {
			node  int
			buyer string
			at    time.Time
		}
		var mu sync.Mutex
		var winners []got
		won := make(chan string, releases+5)
		refused := make(chan struct{}, 1)
		for i := range 8 {
			running.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					node, buyer := n%2, fmt.Sprint("buyer-", i, "-", n)
					if remembers(nodes[node], sku, buyer) {
						signal(refused)
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
		for range releases {
			buyer := check.Receive(t, "an accepted order", won)
			// Each refusal releases one unit. If units were released at fixed intervals, the gate
			// would change before a starved node had loaded its buyers, and the node would refuse
			// no order from memory.
			check.Receive(t, "a refusal from memory", refused)
			release(t, keeper, sku, first, buyer)
		}
	})
}

// signal sends to c unless an earlier signal is still in it.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
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
