package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"flashsale/cmd/flashsale/internal/node/live"
)

// metrics holds the metrics of requests. Labels never contain a buyer, an order or a SKU,
// so the number of series is bounded.
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

// startAtZero creates the counters of all 5xx of the routes. An alert on their rate does not see
// the first value of a series that begins with a failure.
func (m metrics) startAtZero(routes gin.RoutesInfo) {
	for _, r := range routes {
		for _, f := range failures {
			if f.status >= http.StatusInternalServerError {
				m.requests.WithLabelValues(r.Path, r.Method, strconv.Itoa(f.status), f.code)
			}
		}
	}
}

func (m metrics) request(route, method string, status int, code string, took time.Duration) {
	if route == "" {
		route = "none"
		method = "any" // a client can send any method, each a new series
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status), code).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// MetricsHandler serves the registry in Prometheus's format.
func (s *Server) MetricsHandler() http.Handler {
	return promhttp.HandlerFor(s.cfg.Registry, promhttp.HandlerOpts{})
}
