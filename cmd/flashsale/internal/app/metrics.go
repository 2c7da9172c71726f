package app

import (
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/ratelimit"
)

// metrics of what goes on behind the requests. No label grows with buyers,
// orders or sales: of a thousand sales, each series is the node's sum, or its
// worst.
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
		batchSeconds: histogram("flashsale_reserve_script_duration_seconds", "Time of one call of the reserve script, on the wire and in Redis.", seconds),
		batchFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "flashsale_reserve_script_failures_total", Help: "Calls of the reserve script that Redis did not answer.",
		}),
		commitSize:    histogram("flashsale_keeper_commit_orders", "Orders that a keeper committed at once.", sizes),
		commitSeconds: histogram("flashsale_keeper_commit_duration_seconds", "Time of such a commit, which may wait for and share a transaction of other SKUs.", seconds),
		lag: histogram("flashsale_keeper_lag_seconds", "Time from an order's reservation to its being durable.",
			prometheus.ExponentialBuckets(0.001, 2.5, 12)), // 1 ms to 24 s
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "flashsale_limiter_decisions_total", Help: "Decisions of the rate limiter, by the bucket that refused; shadow: it refused nobody.",
		}, []string{"route", "bucket", "outcome", "shadow"}),
	}
	r.MustRegister(m.batchSize, m.batchSeconds, m.batchFailures, m.commitSize, m.commitSeconds, m.lag, m.decisions,
		buildInfo(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// buildInfo is 1, and says in its labels what runs.
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
		Name: "flashsale_build_info", Help: "Always 1: which build of the program this is.",
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

func (m *metrics) commit(c *orders.Commit) {
	m.commitSize.Observe(float64(len(c.Orders)))
	m.commitSeconds.Observe(c.Took.Seconds())
	if c.Err != nil {
		return // flashsale_keeper_failures_total
	}
	for i := range c.Orders {
		if lag, known := c.Lag(c.Orders[i]); known {
			m.lag.Observe(lag.Seconds())
		}
	}
}

func (m *metrics) decision(d ratelimit.Decision) {
	m.decisions.WithLabelValues(d.Route, d.Bucket, string(d.Outcome), strconv.FormatBool(d.Shadow)).Inc()
}

// watch exports what others count.
func (m *metrics) watch(r *prometheus.Registry, s *orders.Service, store *orders.Store, rdb redis.UniversalClient, queueBound int) {
	counter := func(name, help string, read func() float64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read))
	}
	gauge := func(name, help string, read func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	}
	c := s.Counters()
	for name, of := range map[string]struct {
		help string
		read func() int64
	}{
		"flashsale_keeper_orders_total":         {"Orders that this node's keepers carried into the database.", c.Drained.Load},
		"flashsale_keeper_shared_commits_total": {"Transactions that carried orders of several SKUs.", c.Together.Load},
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
		counter(name, of.help, func() float64 { return float64(of.read()) })
	}

	gauge("flashsale_sales", "Sales of interest still: each has a keeper on one of the nodes, unless it is sold past Redis.",
		func() float64 { return float64(s.Sales()) })
	gauge("flashsale_direct_skus", "Sales that are sold past Redis.", func() float64 { return float64(s.DirectSales()) })
	gauge("flashsale_redis_away", "1 while this node has not reached Redis for long, else 0.", func() float64 {
		if s.RedisAway() {
			return 1
		}
		return 0
	})
	gauge("flashsale_keeper_skus", "SKUs that this node keeps.", func() float64 { return float64(s.Stats().Kept) })
	gauge("flashsale_queue_orders", "Orders in the queues of the SKUs that this node keeps.", func() float64 { return float64(s.Stats().Queued) })
	gauge("flashsale_queue_longest_orders", "Orders in the longest of these queues.", func() float64 { return float64(s.Stats().Longest) })
	gauge("flashsale_queue_bound_orders", "Orders in one queue from which on more are refused.", func() float64 { return float64(queueBound) })
	gauge("flashsale_queue_oldest_age_seconds", "For how long an order in these queues has been waiting.", func() float64 { return s.Stats().Oldest.Seconds() })
	gauge("flashsale_drift_skus", "SKUs that this node keeps whose gate was not what the database says, when last compared.",
		func() float64 { return float64(s.Stats().Drifting) })
	gauge("flashsale_drift_units", "Units of these SKUs that nobody can account for, or of which there are too many.",
		func() float64 { return float64(s.Stats().Drift) })

	gauge("flashsale_redis_connections", "Connections to Redis in the pool.", func() float64 { return float64(rdb.PoolStats().TotalConns) })
	gauge("flashsale_redis_connections_in_use", "Connections to Redis in use.", func() float64 {
		p := rdb.PoolStats()
		return float64(p.TotalConns) - float64(p.IdleConns)
	})
	gauge("flashsale_redis_connections_bound", "Connections to Redis that the pool may have.", func() float64 { return RedisConnections })
	counter("flashsale_redis_connection_timeouts_total", "Calls that got no connection to Redis in time.", func() float64 { return float64(rdb.PoolStats().Timeouts) })
	gauge("flashsale_mysql_connections", "Connections to the database in the pool.", func() float64 { return float64(store.Stats().OpenConnections) })
	gauge("flashsale_mysql_connections_in_use", "Connections to the database in use.", func() float64 { return float64(store.Stats().InUse) })
	gauge("flashsale_mysql_connections_bound", "Connections to the database that the pool may have.", func() float64 { return float64(store.Stats().MaxOpenConnections) })
	counter("flashsale_mysql_connection_waits_total", "Calls that waited for a connection to the database.", func() float64 { return float64(store.Stats().WaitCount) })
	counter("flashsale_mysql_connection_wait_seconds_total", "Time that they waited.", func() float64 { return store.Stats().WaitDuration.Seconds() })
}
