package web

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// BenchmarkMetrics is what counting a request costs.
//
//	go test -run - -bench Metrics ./cmd/flashsale/internal/node/web ./cmd/flashsale/internal/node/app
func BenchmarkMetrics(b *testing.B) {
	m := newMetrics(prometheus.NewRegistry())
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.request("/v1/orders", "POST", 409, "sold_out", 27*time.Microsecond)
		}
	})
}
