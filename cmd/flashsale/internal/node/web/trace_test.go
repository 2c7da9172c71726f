package web

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// BenchmarkTrace measures a request without traces, with one in a hundred traced, and with
// all traced. Spans are created but not exported.
func BenchmarkTrace(b *testing.B) {
	gin.SetMode(gin.ReleaseMode)
	for name, sampler := range map[string]sdk.Sampler{"off": nil, "one in 100": sdk.ParentBased(sdk.TraceIDRatioBased(0.01)), "all": sdk.AlwaysSample()} {
		b.Run(name, func(b *testing.B) {
			s := &Server{engine: gin.New()}
			if sampler != nil {
				s.cfg.Tracer = sdk.NewTracerProvider(sdk.WithSampler(sampler)).Tracer("bench")
				s.engine.Use(s.trace)
			}
			s.engine.POST("/v1/orders", func(c *gin.Context) { c.Status(http.StatusConflict) })
			request := httptest.NewRequest(http.MethodPost, "/v1/orders", nil)
			b.ReportAllocs()
			for b.Loop() {
				s.engine.ServeHTTP(httptest.NewRecorder(), request)
			}
		})
	}
}
