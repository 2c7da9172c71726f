package ratelimit

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
)

// BenchmarkAllow compares shared calls with one EVALSHA of the same script per request
// ("one call each"). It needs an installed redis-server:
//
//	go test -run - -bench . -benchmem ./ratelimit
func BenchmarkAllow(b *testing.B) {
	const callers = 256
	far := parse(b, "1000000/s:1000000")
	scarce := parse(b, "1/h:1")
	client := startReal(b)
	l := New(client, patient)
	var ids [4096]string
	for i := range ids {
		ids[i] = fmt.Sprintf("buyer-%d", i)
	}
	var turn atomic.Int64
	spread := func() Bucket { return forBuyer(ids[turn.Add(1)%int64(len(ids))], far) }
	for _, keys := range []struct {
		name    string
		buckets func() []Bucket
	}{
		{"hot", func() []Bucket { return []Bucket{forSKU("s1", far)} }},
		{"spread", func() []Bucket { return []Bucket{spread()} }},
		{"three", func() []Bucket { return []Bucket{spread(), forIP("192.0.2.1", far), forSKU("s1", far)} }},
		{"denied", func() []Bucket { return []Bucket{forSKU("s2", scarce)} }},
	} {
		for _, how := range []struct {
			name string
			ask  func(context.Context, []Bucket) error
		}{
			{"shared calls", func(ctx context.Context, on []Bucket) error {
				_, err := l.Allow(ctx, 1, on...)
				return err
			}},
			{"one call each", func(ctx context.Context, on []Bucket) error {
				return l.take(ctx, []ask{{cost: 1, buckets: on}})[0].err
			}},
		} {
			b.Run(keys.name+"/"+how.name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(callers / runtime.GOMAXPROCS(0))
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						if err := how.ask(b.Context(), keys.buckets()); err != nil {
							b.Errorf("request of the limiter: got error %v, want none", err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
			})
		}
	}
}
