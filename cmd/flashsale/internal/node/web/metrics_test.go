package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
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

// The counters of all 5xx exist from the start, because an alert on their rate does not see the
// first value of a new series. A failure adds no series.
func TestFailureCountersExistFromTheStart(t *testing.T) {
	s := router(t)
	failed := func() map[string]string {
		w := httptest.NewRecorder()
		s.MetricsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		series := map[string]string{}
		for line := range strings.Lines(w.Body.String()) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), "} "); strings.Contains(name, `status="5`) {
				series[name] = value
			}
		}
		return series
	}
	before := failed()
	for _, r := range s.engine.Routes() {
		for _, kind := range []string{`code="unavailable",%s,status="503"`, `code="internal",%s,status="500"`} {
			name := "flashsale_http_requests_total{" + fmt.Sprintf(kind, fmt.Sprintf("method=%q,route=%q", r.Method, r.Path))
			if before[name] != "0" {
				t.Errorf("metrics at the start: got %q as the value of %s}, want 0", before[name], name)
			}
		}
	}
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/sales", nil)) // has not started
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/readyz", nil))
	after := failed()
	if got := after[`flashsale_http_requests_total{code="unavailable",method="GET",route="/v1/sales",status="503"`]; got != "1" || len(after) != len(before) {
		t.Errorf("metrics after a 503: got the value %q and %d series, want 1 and %d", got, len(after), len(before))
	}
}
