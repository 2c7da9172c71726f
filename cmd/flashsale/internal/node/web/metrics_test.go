package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
)

// If the client has gone away, the request is counted as "gone", whatever its response.
func TestCanceledRequestIsCountedAsGone(t *testing.T) {
	s := router(t)
	s.engine.GET("/slow", s.handle(func(c *gin.Context) error { return c.Request.Context().Err() }))
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/slow", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("cancelled request: got status %d, want 503", w.Code)
	}
	w = httptest.NewRecorder()
	s.MetricsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if gone := `flashsale_http_requests_total{code="gone",method="GET",route="/slow",status="499"} 1`; !strings.Contains(w.Body.String(), gone) {
		t.Errorf("metrics of a cancelled request: got no line %s:\n%s", gone, w.Body)
	}
}

// BenchmarkMetrics measures the cost to count a request.
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
