package web

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// trace makes a span of the request, as the next part of the caller's trace
// where it has one (the header traceparent, W3C Trace Context). A request that
// is not sampled costs the decision and no more.
func (s *Server) trace(c *gin.Context) {
	r := c.Request
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := s.cfg.Tracer.Start(ctx, r.Method+" "+c.FullPath(), trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() {
		return
	}
	defer span.End()
	c.Request = r.WithContext(ctx)
	c.Next()
	status := c.Writer.Status()
	span.SetAttributes(
		attribute.String("http.request.method", r.Method),
		attribute.String("http.route", c.FullPath()),
		attribute.String("url.path", r.URL.Path),
		attribute.Int("http.response.status_code", status),
		attribute.String("flashsale.request_id", c.Writer.Header().Get(requestID)),
	)
	code := c.GetString(codeKey)
	if code != "" {
		span.SetAttributes(attribute.String("flashsale.code", code))
	}
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, code)
	}
}
