package app

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// The metrics pass Prometheus's linter. More buyers, orders and sales add no series. All
// metrics of the alerts and the dashboard exist.
func TestMetrics(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) {
		c.LimitBuyer, c.Changes, c.Webhook = parseLimit(t, "1/h:3"), true, map[string]string{"shop": "https://127.0.0.1:1/"} // port 1 is closed
	})
	n.sellAll("first", "ann")
	n.send("GET", "/metrics", "", "") // requests to /metrics are counted as well
	text := n.send("GET", "/metrics", "", "").body + "\n"
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	check.Must(t, err)
	for _, p := range problems {
		t.Errorf("metric %s: the linter reports %q, want no problems", p.Metric, p.Text)
	}

	before := series(text)
	const others = 10
	for i := range others {
		n.sellAll(fmt.Sprint("sale-", i), fmt.Sprint("buyer-", i))
	}
	more := series(n.send("GET", "/metrics", "", "").body)
	more = slices.DeleteFunc(more, func(s string) bool { return slices.Contains(before, s) })
	// A slow store may add a few series.
	if len(before) < 100 || len(more) >= others {
		t.Errorf("%d more buyers and sales: got %d more series after %d, want fewer than buyers and sales: %v", others, len(more), len(before), more)
	}

	for _, file := range []string{"alerts.yml", "grafana/dashboards/flashsale.json"} {
		rules, err := os.ReadFile(filepath.Join("../../../../../.compose", file))
		check.Must(t, err)
		named := regexp.MustCompile(`\b(flashsale|process|go)_\w+`).FindAllString(string(rules), -1)
		if len(named) < 10 {
			t.Errorf("file %s: got %d metric names, want 10 or more", file, len(named))
		}
		for _, name := range named {
			if !strings.Contains(text, "\n"+name+" ") && !strings.Contains(text, "\n"+name+"{") && !strings.Contains(text, "\n# TYPE "+name+" ") {
				t.Errorf("file %s: it uses the metric %s, which a node does not export", file, name)
			}
		}
	}
}

// sellAll creates a sale and sends requests with every kind of outcome.
func (n *node) sellAll(sku, name string) {
	n.t.Helper()
	buyer := n.token(name, false)
	n.put(sku, 1, 1, 900).ok()
	order := fmt.Sprintf(`{"sku":%q,"quantity":1}`, sku)
	placed := n.send("POST", "/v1/orders", buyer, order, "Idempotency-Key: "+name)
	placed.want(201)
	for _, call := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/orders", order, 409}, // buyer_limit
		{"POST", placed.where() + "/cancel", "", 200},
		{"POST", "/v1/orders", order, 429},
		{"POST", "/v1/orders", order, 429}, // a remembered refusal
		{"GET", placed.where(), "", 200},
		{"GET", "/v1/orders/" + name, "", 404},
		{"GET", "/v1/sales/" + sku, "", 200},
		{"GET", "/v1/sales/no-" + sku, "", 404},
		{"GET", "/" + sku, "", 404},
		{strings.ToUpper(strings.ReplaceAll(name, "-", "")), "/v1/sales", "", 405},
	} {
		if a := n.send(call.method, call.path, buyer, call.body); a.status != call.status {
			n.t.Errorf("call %s %s: got %d %s, want %d", call.method, call.path, a.status, a.body, call.status)
		}
	}
}

// series returns the names and labels of the metrics that begin with flashsale_.
func series(text string) (all []string) {
	for line := range strings.Lines(text) {
		if name, _, found := strings.Cut(line, " "); found && strings.HasPrefix(name, "flashsale_") {
			all = append(all, name)
		}
	}
	return all
}
