package inventory

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// BenchmarkReserve compares the gate with one EVALSHA of the same script per order: 256
// callers, one SKU, a real redis-server. Both sides take turns within one run, and only
// the ratio is meaningful.
//
//	go test -run - -bench Reserve ./inventory
func BenchmarkReserve(b *testing.B) {
	const callers, orders = 256, 40_000
	rdb := servertest.Connect(b, servertest.OpenRedis(b, servers.KindReal).URL, func(o *redis.Options) { o.PoolSize = 64 })
	g := newGate(rdb, Config{QueueLimit: 10 * orders, Timeout: time.Minute})

	round := func(reserve func(Request) error) (perSecond float64) {
		sku := newSKU()
		open(b, g, sku, orders, 1)
		requests := make([]Request, orders)
		for i := range requests {
			requests[i] = benchRequest(sku, i)
		}
		b.StartTimer()
		began := time.Now()
		var running sync.WaitGroup
		for c := range callers {
			running.Go(func() {
				for i := c; i < orders; i += callers {
					if err := reserve(requests[i]); err != nil {
						b.Errorf("reserve: got error %v, want none", err)
						return
					}
				}
			})
		}
		running.Wait()
		took := time.Since(began)
		b.StopTimer()
		if left := inspect(b, g, sku).Available; left != 0 {
			b.Fatalf("gate after the benchmark: got %d units left of %d, want none", left, orders)
		}
		rdb.FlushAll(b.Context())
		return orders / took.Seconds()
	}
	var batched, single, ratio []float64
	b.StopTimer()
	for range b.N {
		batched = append(batched, round(func(r Request) error {
			_, err := g.Reserve(b.Context(), r)
			return err
		}))
		single = append(single, round(func(r Request) error {
			c := &call{Q: r}
			g.state(r.SKU).reserveBatch(b.Context(), []*call{c})
			return c.Err
		}))
		ratio = append(ratio, batched[len(batched)-1]/single[len(single)-1])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(batched), "batched/s")
	b.ReportMetric(median(single), "single/s")
	b.ReportMetric(median(ratio), "ratio")
}

func benchRequest(sku string, i int) Request {
	return Request{
		OrderID: fmt.Sprintf("0192f8a0-7c1e-7abc-9def-%012d", i), SKU: sku, Buyer: fmt.Sprintf("buyer-%06d", i), Quantity: 1,
		Key: fmt.Sprintf("0d9f8a07-c1e7-4bc9-8def-%012d", i), Fingerprint: "00112233445566778899aabbccddeeff", Node: "node-1",
	}
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

// BenchmarkMemoryPerOrder reports the memory in Redis for an open order that has left the
// queue: its hold, its buyer's units and its key.
func BenchmarkMemoryPerOrder(b *testing.B) {
	const orders = 50_000
	rdb := servertest.Connect(b, servertest.OpenRedis(b, servers.KindReal).URL)
	used := func() (n float64) {
		info := rdb.InfoMap(b.Context(), "memory").Val()
		if _, err := fmt.Sscan(info["Memory"]["used_memory_dataset"], &n); err != nil {
			b.Fatalf("read Redis's used_memory_dataset: got error %v, want none", err)
		}
		return n
	}
	for b.Loop() {
		rdb.FlushAll(b.Context())
		g, sku := newGate(rdb, Config{QueueLimit: 2 * orders, Timeout: time.Minute}), newSKU()
		open(b, g, sku, orders, 1)
		before := used()
		for from := 0; from < orders; from += 250 {
			batch := make([]*call, 250)
			for i := range batch {
				batch[i] = &call{Q: benchRequest(sku, from+i)}
			}
			g.state(sku).reserveBatch(b.Context(), batch)
			check.Must(b, batch[249].Err)
		}
		queued := used()
		for {
			queue, err := g.ReadQueue(b.Context(), sku, "", 500)
			check.Must(b, err)
			if len(queue) == 0 {
				break
			}
			check.Must(b, check.Err(g.Ack(b.Context(), sku, queue, nil)))
		}
		settled := used()
		size := func(key string) float64 {
			return float64(rdb.MemoryUsage(b.Context(), key, 0).Val())
		}
		b.ReportMetric((queued-before)/orders, "queued-B/order")
		b.ReportMetric((settled-before)/orders, "B/order")
		b.ReportMetric(size(keys.Holds(sku))/orders, "hold-B")
		b.ReportMetric(size(keys.Buyers(sku))/orders, "buyer-B")
		b.ReportMetric(size(keys.Keys(sku))/orders, "key-B")
	}
}
