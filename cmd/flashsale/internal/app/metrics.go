package app

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"

	"flashsale/orders"
	"flashsale/ratelimit"
)

// metrics of what goes on behind the requests. No label grows with buyers,
// orders or sales.
type metrics struct {
	batchSize    prometheus.Histogram
	batchSeconds prometheus.Histogram
	decisions    *prometheus.CounterVec
}

func newMetrics(r *prometheus.Registry) *metrics {
	m := &metrics{
		batchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "flashsale_reserve_batch_requests", Help: "Requests that shared one call of the reserve script.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 9),
		}),
		batchSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "flashsale_reserve_batch_seconds", Help: "Time of one call of the reserve script, on the wire and in Redis.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 12),
		}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "flashsale_limiter_decisions_total", Help: "Decisions of the rate limiter, by the bucket that refused; shadow: it refused nobody.",
		}, []string{"route", "bucket", "outcome", "shadow"}),
	}
	r.MustRegister(m.batchSize, m.batchSeconds, m.decisions, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) batch(requests int, took time.Duration) {
	m.batchSize.Observe(float64(requests))
	m.batchSeconds.Observe(took.Seconds())
}

func (m *metrics) decision(d ratelimit.Decision) {
	m.decisions.WithLabelValues(d.Route, d.Bucket, string(d.Outcome), strconv.FormatBool(d.Shadow)).Inc()
}

// watch exports what others count.
func (m *metrics) watch(r *prometheus.Registry, s *orders.Service, store *orders.Store, rdb redis.UniversalClient) {
	c := s.Counters()
	for name, read := range map[string]struct {
		help string
		read func() int64
	}{
		"flashsale_keeper_orders_total":         {"Orders that this node's keepers carried into the database.", c.Drained.Load},
		"flashsale_keeper_restored_units_total": {"Units that this node's keepers gave back to the gate.", c.Restored.Load},
		"flashsale_keeper_rebuilds_total":       {"Gates built or rebuilt from the database.", c.Rebuilt.Load},
		"flashsale_keeper_comparisons_total":    {"Comparisons of a gate's units with the database's.", c.Compared.Load},
		"flashsale_keeper_repairs_total":        {"Gates rebuilt because they had drifted from the database.", c.Repaired.Load},
		"flashsale_keeper_takeovers_total":      {"SKUs that this node began to keep.", c.TakenOver.Load},
		"flashsale_keeper_fenced_total":         {"Keepers that found another one in their place.", c.Fenced.Load},
		"flashsale_keeper_leases_lost_total":    {"Leases that ended before they were released.", c.Lost.Load},
		"flashsale_keeper_failures_total":       {"Passes of keepers that ended in an error.", c.Failed.Load},
		"flashsale_direct_entered_total":        {"Sales that this node had sold past Redis, which was away.", c.DirectEntered.Load},
		"flashsale_direct_left_total":           {"Sales that were sold past Redis and have a gate again.", c.DirectLeft.Load},
		"flashsale_direct_orders_total":         {"Orders that this node carried into the database past Redis.", c.DirectPlaced.Load},
		"flashsale_direct_refused_total":        {"Orders past Redis for which there was no room in line.", c.DirectRefused.Load},
		"flashsale_orders_expired_total":        {"Unpaid orders that this node's sweeper closed.", c.Expired.Load},
	} {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: read.help},
			func() float64 { return float64(read.read()) }))
	}
	gauge := func(name, help string, read func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	}
	gauge("flashsale_keeper_skus", "SKUs that this node keeps.", func() float64 { return float64(len(s.Kept())) })
	gauge("flashsale_direct_skus", "Sales that are sold past Redis.", func() float64 { return float64(s.DirectSales()) })
	gauge("flashsale_redis_connections", "Connections to Redis in the pool.", func() float64 { return float64(rdb.PoolStats().TotalConns) })
	gauge("flashsale_mysql_connections", "Connections to the database in the pool.", func() float64 { return float64(store.Stats().OpenConnections) })
	gauge("flashsale_mysql_connections_in_use", "Connections to the database in use.", func() float64 { return float64(store.Stats().InUse) })
}
