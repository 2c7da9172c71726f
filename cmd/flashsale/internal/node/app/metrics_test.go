package app

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/keeper"
	"flashsale/ratelimit/admission"
)

// The metrics of a node that has sold: named as Prometheus wants it, not one
// series more for more buyers, orders or sales, and none missing that the
// alerts and the dashboard look at.
func TestMetrics(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { c.LimitBuyer = parseLimit(t, "1/h:3") })
	n.sellAll("first", "ann")
	n.send("GET", "/metrics", "", "") // which is counted, too
	text := n.send("GET", "/metrics", "", "").body + "\n"
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	check.Must(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}

	was := series(text)
	const others = 10
	for i := range others {
		n.sellAll(fmt.Sprint("sale-", i), fmt.Sprint("buyer-", i))
	}
	more := series(n.send("GET", "/metrics", "", "").body)
	more = slices.DeleteFunc(more, func(s string) bool { return slices.Contains(was, s) })
	// None, as a rule; of a store that was slow some may be new.
	if len(was) < 100 || len(more) >= others {
		t.Errorf("there were %d series; after %d more buyers and sales there are also %v", len(was), others, more)
	}

	for _, file := range []string{"alerts.yml", "grafana/dashboards/flashsale.json"} {
		rules, err := os.ReadFile(filepath.Join("../../../../../.compose", file))
		check.Must(t, err)
		named := regexp.MustCompile(`\b(flashsale|process|go)_\w+`).FindAllString(string(rules), -1)
		if len(named) < 10 {
			t.Errorf("%s names %d metrics", file, len(named))
		}
		for _, name := range named {
			if !strings.Contains(text, "\n"+name+" ") && !strings.Contains(text, "\n"+name+"{") && !strings.Contains(text, "\n# TYPE "+name+" ") {
				t.Errorf("%s looks at %s, which a node does not have", file, name)
			}
		}
	}
}

// sellAll has a buyer do what there is to do with a new sale, and hear all that
// there is to hear.
func (n *node) sellAll(sku, name string) {
	n.t.Helper()
	buyer := n.token(name, false)
	n.put(sku, 1, 1, 900).ok()
	order := fmt.Sprintf(`{"sku":%q,"quantity":1}`, sku)
	placed := n.send("POST", "/v1/orders", buyer, order, "Idempotency-Key: "+name)
	placed.is(201)
	for _, call := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/orders", order, 409}, // buyer_limit
		{"POST", placed.where() + "/cancel", "", 200},
		{"POST", "/v1/orders", order, 429},
		{"POST", "/v1/orders", order, 429}, // remembered
		{"GET", placed.where(), "", 200},
		{"GET", "/v1/orders/" + name, "", 404},
		{"GET", "/v1/sales/" + sku, "", 200},
		{"GET", "/v1/sales/no-" + sku, "", 404},
		{"GET", "/" + sku, "", 404},
		{strings.ToUpper(strings.ReplaceAll(name, "-", "")), "/v1/sales", "", 405},
	} {
		if a := n.send(call.method, call.path, buyer, call.body); a.status != call.status {
			n.t.Errorf("%s %s: %d %s", call.method, call.path, a.status, a.body)
		}
	}
}

// series are the names and labels of a node's own metrics.
func series(text string) (all []string) {
	for line := range strings.Lines(text) {
		if name, _, found := strings.Cut(line, " "); found && strings.HasPrefix(name, "flashsale_") {
			all = append(all, name)
		}
	}
	return all
}

// BenchmarkMetrics is what it costs to count an order, of 100 that share a
// script call and a transaction: the limiter's decision, its part of both, and
// how late it was durable. That of its request: see package web.
func BenchmarkMetrics(b *testing.B) {
	const share = 100
	m := newMetrics(prometheus.NewRegistry())
	seconds := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "lag", Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12)})
	b.ReportAllocs()
	for i := range b.N {
		m.decision(admission.Decision{Route: "place", Outcome: admission.Allowed})
		seconds.Observe(0.003)
		if i%share == 0 {
			m.batch(inventory.Batch{Requests: share, Took: time.Millisecond})
			m.commit(&keeper.Commit{Orders: make([]inventory.Queued, share), Took: time.Millisecond})
		}
	}
}
