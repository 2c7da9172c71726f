package app

import (
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
	"flashsale/orders/feed"
	"flashsale/orders/feed/webhooks"
	"flashsale/orders/keeper"
	"flashsale/orders/shop"
	"flashsale/orders/store"
	"flashsale/ratelimit/admission"
)

// metrics holds the metrics of the gate, the keepers and the limiter. Labels never
// contain a buyer, an order or a SKU, so the number of series stays constant: a series
// is the sum or the maximum over the sales of the node.
type metrics struct {
	batchSize     prometheus.Histogram
	batchSeconds  prometheus.Histogram
	batchFailures prometheus.Counter
	commitSize    prometheus.Histogram
	commitSeconds prometheus.Histogram
	lag           prometheus.Histogram
	decisions     *prometheus.CounterVec
}

func newMetrics(r *prometheus.Registry) *metrics {
	sizes := prometheus.ExponentialBuckets(1, 2, 10)          // to 512
	seconds := prometheus.ExponentialBuckets(0.0001, 2.5, 12) // 0.1 ms to 2.4 s
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	m := &metrics{
		batchSize:    histogram("flashsale_reserve_batch_requests", "Requests that shared one call of the reserve script.", sizes),
		batchSeconds: histogram("flashsale_reserve_script_duration_seconds", "Time of one call of the reserve script: until it is sent, on the wire, and in Redis.", seconds),
		batchFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "flashsale_reserve_script_failures_total", Help: "Reserve script calls that failed.",
		}),
		commitSize:    histogram("flashsale_keeper_commit_orders", "Orders that a keeper committed at once.", sizes),
		commitSeconds: histogram("flashsale_keeper_commit_duration_seconds", "Time of a keeper's commit, which may wait for and share a transaction of other SKUs.", seconds),
		lag: histogram("flashsale_keeper_lag_seconds", "Time from the acceptance of an order at the gate until it is durable.",
			prometheus.ExponentialBuckets(0.001, 2.5, 12)), // 1 ms to 24 s
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "flashsale_limiter_decisions_total", Help: "Rate limiter decisions, by the bucket that refused. shadow: counted, not refused.",
		}, []string{"route", "bucket", "outcome", "shadow"}),
	}
	r.MustRegister(m.batchSize, m.batchSeconds, m.batchFailures, m.commitSize, m.commitSeconds, m.lag, m.decisions,
		buildInfo(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// buildInfo returns a gauge that is always 1, with the build in its labels.
func buildInfo() prometheus.Collector {
	version, revision := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "flashsale_build_info", Help: "Always 1. The labels say which build runs.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}

func (m *metrics) batch(b inventory.Batch) {
	m.batchSize.Observe(float64(b.Requests))
	m.batchSeconds.Observe(b.Took.Seconds())
	if b.Err != nil {
		m.batchFailures.Inc()
	}
}

func (m *metrics) commit(c *keeper.Commit) {
	m.commitSize.Observe(float64(len(c.Orders)))
	m.commitSeconds.Observe(c.Took.Seconds())
	if c.Err != nil {
		return // counted by flashsale_keeper_failures_total
	}
	for i := range c.Orders {
		if lag, known := c.Lag(c.Orders[i]); known {
			m.lag.Observe(lag.Seconds())
		}
	}
}

func (m *metrics) decision(d admission.Decision) {
	m.decisions.WithLabelValues(d.Route, d.Bucket, string(d.Outcome), strconv.FormatBool(d.Shadow)).Inc()
}

// watch exports the counters of the service, the stores and the Redis client.
func (m *metrics) watch(r *prometheus.Registry, s *shop.Service, st *store.Store, rdb redis.UniversalClient, queueLimit int) {
	counter := func(name, help string, read func() float64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read))
	}
	gauge := func(name, help string, read func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	}
	c := s.Controller().Counters()
	for name, total := range map[string]struct {
		help string
		read func() int64
	}{
		"flashsale_keeper_orders_total":         {"Orders that this node's keepers committed.", c.Drained.Load},
		"flashsale_keeper_shared_commits_total": {"Commits with orders of several SKUs.", c.SharedCommits.Load},
		"flashsale_keeper_released_units_total": {"Units that this node's keepers released to the gate.", c.Released.Load},
		"flashsale_keeper_rebuilds_total":       {"Gates built from the database.", c.Rebuilt.Load},
		"flashsale_keeper_comparisons_total":    {"Comparisons of a gate with the database.", c.Compared.Load},
		"flashsale_keeper_repairs_total":        {"Gates rebuilt because of drift.", c.Repaired.Load},
		"flashsale_keeper_takeovers_total":      {"SKUs this node took over.", c.TakenOver.Load},
		"flashsale_keeper_fenced_total":         {"Keepers of this node refused by a newer fence.", c.Fenced.Load},
		"flashsale_keeper_leases_lost_total":    {"Leases lost before they were released.", c.LocksLost.Load},
		"flashsale_keeper_stalled_total":        {"SKUs this node gave up after a lease without progress.", c.Stalled.Load},
		"flashsale_keeper_failures_total":       {"Keeper passes that failed.", c.Failed.Load},
		"flashsale_direct_entered_total":        {"Times this node switched a sale to direct mode.", c.DirectEntered.Load},
		"flashsale_direct_left_total":           {"Times this node switched a sale back from direct mode.", c.DirectEnded.Load},
		"flashsale_direct_orders_total":         {"Orders this node committed in direct mode.", c.DirectPlaced.Load},
		"flashsale_direct_refused_total":        {"Orders this node refused in direct mode because --direct-max was full.", c.DirectRefused.Load},
		"flashsale_orders_expired_total":        {"Unpaid orders this node expired.", c.Expired.Load},
	} {
		counter(name, total.help, func() float64 { return float64(total.read()) })
	}
	for name, loop := range s.Controller().Loops {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "flashsale_loop_failures_total", Help: "Failed runs of this node's background loops, by loop. Keeper passes are counted apart.",
			ConstLabels: prometheus.Labels{"loop": name},
		}, func() float64 { return float64(loop.Failures.Load()) }))
	}

	gauge("flashsale_sales", "Sales that are not over. Each has one keeper, or is in direct mode.",
		func() float64 { return float64(len(s.Controller().Catalog().All())) })
	gauge("flashsale_sales_in_direct_mode", "Sales in direct mode.", func() float64 { return float64(s.Controller().DirectSales()) })
	gauge("flashsale_redis_up", "1 while all Redis masters take this node's writes; 0 once one has not for --direct-after.", func() float64 {
		if s.Controller().RedisDown() {
			return 0
		}
		return 1
	})
	gauge("flashsale_redis_shared", "1 while nodes of another database use this Redis under the same names, otherwise 0.", func() float64 {
		if s.Controller().Rival() != "" {
			return 1
		}
		return 0
	})
	gauge("flashsale_keeper_skus", "SKUs this node keeps.", func() float64 { return float64(s.Controller().Stats().KeptSKUs) })
	gauge("flashsale_queue_orders", "Orders queued for the SKUs this node keeps.", func() float64 { return float64(s.Controller().Stats().QueuedOrders) })
	gauge("flashsale_queue_orders_max", "Orders in the longest queue of a SKU this node keeps.", func() float64 { return float64(s.Controller().Stats().LongestQueue) })
	gauge("flashsale_queue_limit", "Maximum orders in one queue (--queue-limit).", func() float64 { return float64(queueLimit) })
	gauge("flashsale_queue_oldest_age_seconds", "Age of the oldest queued order of a SKU this node keeps.", func() float64 { return s.Controller().Stats().OldestAge.Seconds() })
	gauge("flashsale_drift_skus", "SKUs this node keeps whose gate differed from the database when last compared.",
		func() float64 { return float64(s.Controller().Stats().DriftingSKUs) })
	gauge("flashsale_drift_units", "Units by which the gates of those SKUs differed from the database.",
		func() float64 { return float64(s.Controller().Stats().DriftUnits) })

	gauge("flashsale_redis_connections", "Connections to Redis in the pool.", func() float64 { return float64(rdb.PoolStats().TotalConns) })
	gauge("flashsale_redis_connections_in_use", "Connections to Redis in use.", func() float64 {
		p := rdb.PoolStats()
		return float64(p.TotalConns) - float64(p.IdleConns)
	})
	gauge("flashsale_redis_connections_bound", "Limit of the pool of Redis connections.", func() float64 { return RedisConnections })
	counter("flashsale_redis_connection_timeouts_total", "Calls that timed out waiting for a Redis connection.", func() float64 { return float64(rdb.PoolStats().Timeouts) })
	gauge("flashsale_mysql_connections", "Connections to the database in the pool.", func() float64 { return float64(st.Stats().OpenConnections) })
	gauge("flashsale_mysql_connections_in_use", "Connections to the database in use.", func() float64 { return float64(st.Stats().InUse) })
	gauge("flashsale_mysql_connections_bound", "Limit of the pool of database connections.", func() float64 { return float64(st.Stats().MaxOpenConnections) })
	counter("flashsale_mysql_connection_waits_total", "Calls that waited for a connection to the database.", func() float64 { return float64(st.Stats().WaitCount) })
	counter("flashsale_mysql_connection_wait_seconds_total", "Time that calls waited for a connection to the database.", func() float64 { return st.Stats().WaitDuration.Seconds() })
}

// watchFeed adds the metric of the feed.
func watchFeed(r *prometheus.Registry, f *feed.Feed) {
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "flashsale_feed_lag_seconds", Help: "Time for which changes have been waiting to be reported in the feed; 0 if none waits.",
	}, func() float64 { return f.Lag().Seconds() }))
}

// watchWebhooks adds the metrics of the webhooks.
func watchWebhooks(r *prometheus.Registry, d *webhooks.Deliverer) {
	for i, w := range d.States() {
		gauge := func(name, help string, read func(webhooks.State) float64) {
			r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: name, Help: help, ConstLabels: prometheus.Labels{"name": w.Name},
			}, func() float64 { return read(d.States()[i]) }))
		}
		gauge("flashsale_webhook_lag_seconds", "Age of the oldest change that is not delivered to the webhook; 0 if all are.", func(w webhooks.State) float64 { return w.Lag })
		gauge("flashsale_webhook_failures", "Failed attempts of all nodes since the last delivery to the webhook.", func(w webhooks.State) float64 { return float64(w.Failures) })
	}
}
