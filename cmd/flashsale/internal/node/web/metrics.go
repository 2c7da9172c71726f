package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"flashsale/cmd/flashsale/internal/node/live"
)

// metrics of requests. No label grows with buyers, orders or sales.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(r *prometheus.Registry) metrics {
	f := promauto.With(r)
	return metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "flashsale_http_requests_total",
			Help: "Requests answered, by route, method, status and problem code.",
		}, []string{"route", "method", "status", "code"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "flashsale_http_request_duration_seconds",
			Help:    "Time from a request's arrival to its answer, by route.",
			Buckets: live.Bounds,
		}, []string{"route"}),
	}
}

func (m metrics) request(route, method string, status int, code string, took time.Duration) {
	if route == "" {
		route = "none"
		method = "any" // both are the caller's choice, and would grow
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status), code).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// MetricsHandler serves the registry in Prometheus's format.
func (s *Server) MetricsHandler() http.Handler {
	return promhttp.HandlerFor(s.cfg.Registry, promhttp.HandlerOpts{})
}
