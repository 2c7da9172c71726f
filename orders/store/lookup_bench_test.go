package store

import (
	"fmt"
	"sync/atomic"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/orders/internal/kit"
)

// BenchmarkLookup measures replays: each caller looks up an order by its key, and its answer is
// durable.
func BenchmarkLookup(b *testing.B) {
	s := servertest.Open(b, servers.KindReal)
	store, _ := stocked(b, s.SQL, 1000)
	kit.Exec(b, store.DB, "UPDATE orders SET idempotency_key = buyer")
	for _, callers := range []int{1, 10, 200} {
		b.Run(fmt.Sprint(callers, "callers"), func(b *testing.B) {
			b.SetParallelism(max(callers/2, 1))
			var n atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					buyer := fmt.Sprint("buyer-", n.Add(1)%1000)
					if o, _, err := store.Lookup(b.Context(), "S", buyer, buyer); err != nil || o == nil {
						b.Errorf("look up the order of %s: got %+v, %v", buyer, o, err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "replays/s")
		})
	}
}
