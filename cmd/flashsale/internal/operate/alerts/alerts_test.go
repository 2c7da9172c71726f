package alerts

import (
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
)

// long is the number of samples in half an hour.
const long = 360

// healthy contains the series of three nodes that sell. At sample 100 they have troubles
// that end by themselves: a lost lease, a short outage of Redis, a queue that fills up, and
// calls that wait.
const healthy = `
up{NODE} 1x100 0x4 1x254
flashsale_sales{NODE} 9x360
flashsale_keeper_skus{NODE} 3x100 2x3 3x255
flashsale_sales_in_direct_mode{NODE} 0x100 1x5 0x253
flashsale_redis_up{NODE} 1x100 0 1x258
flashsale_redis_shared{NODE} 0x360
flashsale_feed_lag_seconds{NODE} 0x100 0+5x15 0x243
flashsale_drift_skus{NODE} 0x100 1x5 0x254
flashsale_keeper_repairs_total{NODE} 0x360
flashsale_queue_oldest_age_seconds{NODE} 0x100 0+5x4 0x254
flashsale_queue_orders_max{NODE} 400x100 17000 400x258
flashsale_queue_limit{NODE} 20000x360
flashsale_keeper_leases_lost_total{NODE} 0x100 1x259
flashsale_keeper_fenced_total{NODE} 0x360
flashsale_http_requests_total{NODE, route="/v1/orders", status="201", code=""} 0+1000x360
flashsale_http_requests_total{NODE, route="/v1/orders", status="503", code="unavailable"} 0x100 0+1x259
flashsale_http_requests_total{NODE, route="/readyz", status="503", code="unavailable"} 0+1000x360
flashsale_http_requests_total{NODE, route="/v1/live", status="503", code="unavailable"} 0+1000x360
flashsale_http_request_duration_seconds_bucket{NODE, route="/v1/orders", le="0.1"} 0+1000x100 100000+1000x259
flashsale_http_request_duration_seconds_bucket{NODE, route="/v1/orders", le="2.4"} 0+1001x100 100500+1001x259
flashsale_http_request_duration_seconds_bucket{NODE, route="/v1/orders", le="+Inf"} 0+1001x100 100500+1001x259
flashsale_mysql_connection_wait_seconds_total{NODE} 0+0.1x100 110+0.1x258
flashsale_redis_connection_timeouts_total{NODE} 0x100 1x259
flashsale_keeper_failures_total{NODE} 0x100 0+5x2 10x256
flashsale_loop_failures_total{NODE, loop="sweeper"} 0x100 1x259
flashsale_loop_failures_total{NODE, loop="bus"} 0+1x360
flashsale_webhook_lag_seconds{NODE, name="shop"} 0x100 0+5x30 0x228
`

// failures maps each alert to its failure: series that replace healthy ones on all nodes, and
// the sample by which the alert must fire.
var failures = map[string]struct {
	series string
	within int
}{
	"FlashsaleDrift":         {"flashsale_drift_skus{NODE} 0x100 1x259", 100 + 20},
	"FlashsaleDriftRepaired": {"flashsale_keeper_repairs_total{NODE} 0x100 1x259", 100 + 5},
	"FlashsaleKeeperStuck":   {"flashsale_queue_oldest_age_seconds{NODE} 0x100 0+5x259", 100 + 10},
	"FlashsaleLoopFails":     {`flashsale_loop_failures_total{NODE, loop="sweeper"} 0x100 0+1x259`, 100 + 10},
	"FlashsaleSaleWithoutKeeper": {
		"flashsale_keeper_skus{NODE} 3x100 2x259", 100 + 10,
	},
	"FlashsaleQueueNearLimit": {"flashsale_queue_orders_max{NODE} 400x100 17000x259", 100 + 5},
	"FlashsaleRedisDown":      {"flashsale_redis_up{NODE} 1x100 0x259", 100 + 5},
	"FlashsaleRedisShared":    {"flashsale_redis_shared{NODE} 0x100 1x259", 100 + 5},
	"FlashsaleFeedLag":        {"flashsale_feed_lag_seconds{NODE} 0x100 0+5x259", 100 + 30},
	"FlashsaleDirectMode":     {"flashsale_sales_in_direct_mode{NODE} 0x100 9x259", 100 + 15},
	"FlashsaleLeasesLost":     {"flashsale_keeper_leases_lost_total{NODE} 0x100 0+1x259", 100 + 130},
	"FlashsaleErrors": {
		`flashsale_http_requests_total{NODE, route="/v1/orders", status="503", code="unavailable"} 0x100 0+50x259`, 100 + 20,
	},
	"FlashsaleSlow": {
		`flashsale_http_request_duration_seconds_bucket{NODE, route="/v1/orders", le="2.4"} 0+1020x360
		 flashsale_http_request_duration_seconds_bucket{NODE, route="/v1/orders", le="+Inf"} 0+1020x360`, 30,
	},
	"FlashsaleWebhookBehind":      {`flashsale_webhook_lag_seconds{NODE, name="shop"} 0x100 0+5x259`, 100 + 80},
	"FlashsaleMySQLPoolExhausted": {"flashsale_mysql_connection_wait_seconds_total{NODE} 0x100 0+10x259", 100 + 20},
	"FlashsaleRedisPoolExhausted": {"flashsale_redis_connection_timeouts_total{NODE} 0x100 0+1x259", 100 + 20},
}

func TestAlerts(t *testing.T) {
	rules := read(t)
	healthyNodes := same(3, healthy)
	for name, rule := range rules {
		if at, fires := firstFires(t, rule, scrape(t, healthyNodes)); fires {
			t.Errorf("alert %s on healthy nodes: it fires at sample %d, want never", name, at)
		}
		if name == "FlashsaleNodeDown" || name == "FlashsaleDown" {
			continue // tested below, and in TestTotalOutage
		}
		failure, known := failures[name]
		if !known {
			t.Errorf("alert %s: got no failure that should trigger it, want one", name)
			continue
		}
		at, fires := firstFires(t, rule, scrape(t, same(3, with(healthy, failure.series))))
		if !fires || at > failure.within {
			t.Errorf("alert %s during its failure: got firing %v at sample %d, want by sample %d", name, fires, at, failure.within)
		}
	}
	for name := range failures {
		if _, known := rules[name]; !known {
			t.Errorf("failure %s: got no alert of that name, want one", name)
		}
	}

	// All series of a node that is gone end. The "up" of a node that does not answer is 0.
	// If no node is left, count(up) returns nothing.
	down := rules["FlashsaleNodeDown"]
	for what, up := range map[string]string{
		"one node gone":      `1x100 stale _x258`,
		"one node not ready": `1x100 0x259`,
		"the last node gone": `1x100 stale _x258`,
	} {
		text := `up{job="flashsale", instance="1"} ` + up + "\n"
		if what != "the last node gone" {
			text += `up{job="flashsale", instance="2"} 1x360`
		}
		if at, fires := firstFires(t, down, scrape(t, text)); !fires || at > 100+20 {
			t.Errorf("alert FlashsaleNodeDown, %s: got firing %v at sample %d, want by sample 120", what, fires, at)
		}
	}
	failing := with(healthy, "flashsale_keeper_failures_total{NODE} 0x100 0+5x259")
	if at, fires := firstFires(t, rules["FlashsaleLoopFails"], scrape(t, same(3, failing))); !fires || at > 100+10 {
		t.Errorf("alert FlashsaleLoopFails while keepers fail: got firing %v at sample %d, want by sample 110", fires, at)
	}
	// A sale in direct mode has no keeper.
	direct := with(with(healthy, "flashsale_sales_in_direct_mode{NODE} 9x360"), "flashsale_keeper_skus{NODE} 0x360")
	if _, fires := firstFires(t, rules["FlashsaleSaleWithoutKeeper"], scrape(t, same(3, direct))); fires {
		t.Error("alert FlashsaleSaleWithoutKeeper in direct mode: it fires, want it silent")
	}
}

// While no node answers, a critical alert fires. It is still firing after two hours, whether
// Prometheus still knows the nodes or not.
func TestTotalOutage(t *testing.T) {
	rule := read(t)["FlashsaleDown"]
	if rule.Labels["severity"] != "critical" {
		t.Errorf("alert FlashsaleDown: got severity %q, want critical", rule.Labels["severity"])
	}
	const twoHours = 1440
	for what, up := range map[string]string{"all nodes gone": "1x100 stale", "no node answers": "1x100 0x1440"} {
		first := -1
		for i, fires := range evaluate(t, rule, scrape(t, same(2, "up{NODE} "+up)), 100+twoHours) {
			if first < 0 && fires {
				first = i
			}
			if !fires && i > 100+20 {
				t.Fatalf("alert FlashsaleDown, %s: it fires first at sample %d and is silent at sample %d, want it firing from sample 120 on", what, first, i)
			}
		}
		if first < 100 {
			t.Errorf("alert FlashsaleDown, %s: it fires first at sample %d, want after sample 100", what, first)
		}
	}
	if at, fires := firstFires(t, rule, scrape(t, `up{job="flashsale", instance="1"} 1x100 0x259
		up{job="flashsale", instance="2"} 1x360`)); fires {
		t.Errorf("alert FlashsaleDown with one node of two: it fires at sample %d, want never", at)
	}
}

// with replaces series of healthy.
func with(healthy, series string) string {
	lines := strings.Split(healthy, "\n")
	for other := range strings.Lines(series) {
		other = strings.TrimSpace(other)
		name, _, _ := strings.Cut(other, "} ")
		found := false
		for i := range lines {
			if strings.HasPrefix(lines[i], name+"} ") {
				lines[i], found = other, true
			}
		}
		if !found {
			panic("healthy has no series " + name + "}")
		}
	}
	return strings.Join(lines, "\n")
}

// read parses the rules with Prometheus's parser.
func read(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	text, err := os.ReadFile("../../../../../.compose/alerts.yml") // outside this module, so go test may return a cached result
	if err != nil {
		t.Fatalf("read the alert rules: got error %v, want none", err)
	}
	groups, errs := rulefmt.Parse(text, false)
	if len(errs) > 0 {
		t.Fatalf("read the alert rules: got errors %v, want none", errs)
	}
	rules := map[string]rulefmt.Rule{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			rules[r.Alert] = r
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("alert %s: got no severity, summary or description, want all three", r.Alert)
			}
		}
	}
	return rules
}

// firstFires returns the first sample at which an alert fires.
func firstFires(t *testing.T, rule rulefmt.Rule, series scraped) (sample int, fires bool) {
	t.Helper()
	for i, fires := range evaluate(t, rule, series, long) {
		if fires {
			return i, true
		}
	}
	return 0, false
}

// evaluate returns for each sample whether an alert fires: its expression has returned a
// result with the same labels for the time that the rule waits.
func evaluate(t *testing.T, rule rulefmt.Rule, series scraped, samples int) iter.Seq2[int, bool] {
	return func(yield func(int, bool) bool) {
		t.Helper()
		engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute})
		defer func() { _ = engine.Close() }()
		pending := map[uint64]time.Time{}
		for i := range samples {
			now := time.UnixMilli(0).Add(time.Duration(i) * every)
			query, err := engine.NewInstantQuery(t.Context(), series, nil, rule.Expr, now)
			if err != nil {
				t.Fatalf("expression of alert %s: got error %v, want none", rule.Alert, err)
			}
			vector, err := query.Exec(t.Context()).Vector()
			if err != nil {
				t.Fatalf("expression of alert %s: got error %v, want none", rule.Alert, err)
			}
			before, fires := pending, false
			pending = map[uint64]time.Time{}
			for _, s := range vector {
				key := s.Metric.Hash()
				since, was := before[key]
				if !was {
					since = now
				}
				pending[key] = since
				fires = fires || now.Sub(since) >= time.Duration(rule.For)
			}
			query.Close()
			if !yield(i, fires) {
				return
			}
		}
	}
}
