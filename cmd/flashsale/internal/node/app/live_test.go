package app

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// A stream is a client of /v1/live.
type stream struct {
	t     testing.TB
	body  io.ReadCloser
	lines *bufio.Scanner
}

// watch opens the stream of a sale, or of the overview if sku is empty. With a token it is
// an operator's stream.
func watch(t testing.TB, url, sku, token string) *stream {
	t.Helper()
	s, err := tryWatch(t, url, sku, token)
	check.Must(t, err)
	return s
}

func tryWatch(t testing.TB, url, sku, token string, header ...string) (*stream, error) {
	t.Helper()
	ctx, cancel := context.WithDeadline(context.WithoutCancel(t.Context()), check.Deadline(t))
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/live?sku="+sku, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		return nil, fmt.Errorf("stream of %s: %d as %q", sku, res.StatusCode, res.Header.Get("Content-Type"))
	}
	asDescribed(t, req, res, nil)
	return &stream{t: t, body: res.Body, lines: bufio.NewScanner(res.Body)}, nil
}

// seen is an event of any kind.
type seen struct {
	event string
	Now   time.Time
	Sold  int64
	Sale  struct {
		SKU, State       string
		Available, Total int64
	}
	Direct, Exact bool
	Missing       []string

	ID     int64
	All    struct{ Accepted, Refused, Limited, Failed, Durable, P99 float64 }
	Nodes  []seenNode
	Sales  []seenRow
	Events []seenEntry
	Points []seenPoint
	Point  seenPoint
	SKU    string
	Marks  []struct {
		What  string
		Units int64
	}
}

type (
	seenEntry struct{ What, SKU, Says string }
	seenPoint struct{ At, Accepted, Available, Sold float64 }
)

// seenRow is a sale in the overview.
type seenRow struct {
	Sale       struct{ SKU string }
	Sold, Paid int64
	P99        float64 `json:"p99_ms"`
	Keeper     string
	Balance    *struct{ Total, Available, Queued, Sold, Restoring, Drift int64 }
}

type seenNode struct {
	Node     string
	Here     bool
	Accepted float64
}

// often returns a change for start: the node makes ten snapshots per second.
func often(node string) func(*Config) {
	return func(c *Config) {
		c.Node, c.SnapshotEvery, c.ReconcileEvery = node, 100*time.Millisecond, 100*time.Millisecond
	}
}

// next returns the next event, or false if the stream has ended.
func (s *stream) next() (e seen, more bool) {
	s.t.Helper()
	for s.lines.Scan() {
		field, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch field {
		case "event":
			e.event = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				s.t.Fatalf("%s: %v", value, err)
			}
			return e, true
		}
	}
	return e, false
}

// until reads events until ok returns true for an event of this kind.
func (s *stream) until(what, event string, ok func(seen) bool) seen {
	s.t.Helper()
	var last seen
	for e, more := s.next(); more; e, more = s.next() {
		if e.event != event {
			continue
		}
		if ok(e) {
			return e
		}
		last = e
	}
	s.t.Fatalf("the stream ended (%v), want %s; the last event was %+v", s.lines.Err(), what, last)
	return last
}

// ends reads to the end of the stream. It fails the test if the stream does not end before
// the test's deadline.
func (s *stream) ends() {
	s.t.Helper()
	for more := true; more; {
		_, more = s.next()
	}
	if err := s.lines.Err(); err != nil {
		s.t.Errorf("the stream does not end by itself: %v", err)
	}
}

// repeatedly calls do in a loop until the caller calls enough.
func repeatedly(t testing.TB, do func()) (enough func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				do()
			}
		}
	}()
	enough = sync.OnceFunc(func() { close(stop); <-stopped })
	t.Cleanup(enough) // runs before the nodes stop
	return enough
}

// The stream of a sale is public, and begins with the history of the sale. Only operators
// receive the stream of all sales, the nodes and the state of all units.
func TestWatch(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		one, two := start(t, s, often("one")), start(t, s, often("two"))
		one.put("S", 3, 2, 900).ok()
		anybody := watch(t, one.URL(), "S", "")
		operator := watch(t, two.URL(), "", two.token("op", true))
		anybody.until("the sale is open", "sale", func(e seen) bool {
			return e.Sale.State == "open" && e.Sale.Available == 3 && e.Sold == 0 && e.Exact && len(e.Missing) == 0
		})
		operator.until("both nodes in the overview", "overview", func(e seen) bool { return len(e.Nodes) == 2 })

		// Rates cover one second, so the requests continue until the stream shows them.
		ann := one.token("ann", false)
		enough := repeatedly(t, func() { one.send("POST", "/v1/orders", ann, `{"sku":"S","quantity":2}`, "Idempotency-Key: k") })
		operator.until("an order that was placed on the other node", "overview", func(e seen) bool {
			i := slices.IndexFunc(e.Nodes, func(n seenNode) bool { return n.Node == "one" })
			return e.All.Accepted > 0 && i >= 0 && !e.Nodes[i].Here && e.Nodes[i].Accepted > 0
		})
		enough()
		operator.until("the law of conservation", "overview", func(e seen) bool {
			if len(e.Sales) != 1 || e.Sales[0].Balance == nil {
				return false
			}
			sale := e.Sales[0]
			b := sale.Balance
			return sale.Sale.SKU == "S" && sale.Sold == 2 && sale.Paid == 0 && (sale.Keeper == "one" || sale.Keeper == "two") && b.Total == 3 && b.Available == 1 && b.Sold == 2 && b.Queued == 0 && b.Restoring == 0 && b.Drift == 0
		})
		bob := two.token("bob", false)
		enough = repeatedly(t, func() { two.send("POST", "/v1/orders", bob, `{"sku":"S","quantity":1}`) })
		operator.until("refusals", "overview", func(e seen) bool { return e.All.Refused > 0 })
		enough()
		anybody.until("sold out", "sale", func(e seen) bool { return e.Sale.State == "sold_out" && e.Sold == 3 })
		if e, _ := anybody.next(); e.event != "sale" || e.All.Accepted != 0 || e.Nodes != nil {
			t.Errorf("the public stream contains %+v", e)
		}

		// A new stream first receives the history, which contains the units sold so far.
		late := watch(t, one.URL(), "S", "")
		history, _ := late.next()
		if points, marks := history.Points, history.Marks; history.event != "history" || history.SKU != "S" || len(points) < 2 || len(marks) < 1 ||
			points[0].Available != 3 || points[0].Sold != 0 || points[len(points)-1].Sold != 3 || marks[0].What != "opened" || marks[0].Units != 3 {
			t.Errorf("first event of a new stream: %+v", history)
		}
		first, _ := late.next()
		second, _ := late.next()
		if first.event != "sale" || first.ID == 0 || second.ID != first.ID+1 {
			t.Errorf("next events: got %q %d and %q %d, want two successive sales", first.event, first.ID, second.event, second.ID)
		}
		two.put("S", 5, 2, 900).ok()
		restocked := late.until("the restock", "sale", func(e seen) bool { return len(e.Marks) > 0 })
		if m := restocked.Marks; len(m) != 1 || m[0].What != "restocked" || m[0].Units != 2 {
			t.Errorf("marks after a restock: got %+v, want restocked 2", m)
		}
	})
}

// A stream needs an existing sale, an operator's token for the overview, and a request that
// the address's limit admits.
func TestWatchRefused(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { c.LimitIP = parseLimit(t, "1/m:6") })
	n.put("S", 3, 2, 900)
	for _, c := range []struct {
		name, path, token string
		status            int
		code              string
	}{
		{"no sale", "/v1/live?sku=none", "", 404, "not_found"},
		{"the overview", "/v1/live", "", 401, "unauthorized"},
		{"the overview, by a buyer", "/v1/live", n.token("ann", false), 403, "forbidden"},
		{"a buyer's token", "/v1/live?sku=S", n.token("ann", false), 403, "forbidden"},
		{"garbage", "/v1/live?sku=S", "x.y.z", 401, "unauthorized"},
		{"the address's limit", "/v1/live?sku=none", "", 404, "not_found"},
		{"the address's limit", "/v1/live?sku=none", "", 429, "rate_limited"},
	} {
		if a := n.send("GET", c.path, c.token, ""); a.status != c.status || a.code() != c.code {
			t.Errorf("%s: got %d %s, want %d %s", c.name, a.status, a.body, c.status, c.code)
		}
	}
	n.send("POST", "/demo/token", "", "").is(404) // the node is not a demo
}

// The streams of one network are limited in number. The limit leaves streams to other
// networks and to operators.
func TestWatchersPerAddress(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), nil)
	n.put("S", 3, 2, 900)
	var last *stream
	for i := range 20 {
		w, err := tryWatch(t, n.URL(), "S", "", fmt.Sprintf("X-Forwarded-For: 2001:db8:1:2::%x", i)) // one /64 network
		check.Must(t, err)
		last = w
	}
	const here = "X-Forwarded-For: 2001:db8:1:2:f::"
	if a := n.send("GET", "/v1/live?sku=S", "", "", here); a.status != 429 || a.code() != "rate_limited" || a.header.Get("Retry-After") == "" {
		t.Errorf("stream 21: got %d %v %s, want 429", a.status, a.header, a.body)
	}
	check.OK(t, check.Err(tryWatch(t, n.URL(), "S", n.token("op", true), here)))
	check.OK(t, check.Err(tryWatch(t, n.URL(), "S", "", "X-Forwarded-For: 192.0.2.1")))
	_ = last.body.Close()
	check.Eventually(t, "a closed stream frees its place", func() bool { return check.Err(tryWatch(t, n.URL(), "S", "", here)) == nil })
}

// A node that stops ends its streams at once, however long it may drain.
func TestShutdownEndsStreams(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Drain = time.Hour })
	n.put("S", 3, 2, 900)
	w := watch(t, n.URL(), "S", "")
	w.until("a snapshot", "sale", func(seen) bool { return true })
	check.OK(t, n.stop())
	w.ends()
}

// The stream of a sale that is deleted from the database ends.
func TestStreamOfDeletedSaleEnds(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	n := start(t, s, often("one"))
	n.put("S", 3, 2, 900)
	w := watch(t, n.URL(), "S", "")
	w.until("a snapshot", "sale", func(seen) bool { return true })
	db, err := sql.Open("sqlite", strings.TrimPrefix(s.SQL, "sqlite:")+"?_pragma=busy_timeout(30000)")
	check.Must(t, err)
	defer func() { _ = db.Close() }()
	check.Must(t, check.Err(db.ExecContext(t.Context(), "DELETE FROM sales")))
	w.ends()
}

// A demo creates a sale and gives tokens to all callers.
func TestDemo(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	n := start(t, s, func(c *Config) { c.Demo = true })
	sale := func() (sale struct {
		SKU, State       string
		Total, Available int64
	}) {
		n.send("GET", "/v1/sales/demo", "", "").into(t, &sale)
		return sale
	}
	check.Eventually(t, "there is a demo sale", func() bool { return sale().SKU == "demo" })
	if got := sale(); got.Total != 1000 || got.Available != 1000 {
		t.Errorf("%+v", got)
	}
	type pass struct{ Token, Subject, Role string }
	ask := func(role string) (p pass) {
		n.send("POST", "/demo/token?role="+role, "", "").into(t, &p)
		return p
	}
	ann, bob, op := ask("buyer"), ask("buyer"), ask("operator")
	if ann.Subject == bob.Subject || ann.Role != "buyer" {
		t.Errorf("tokens of two buyers: got %+v, %+v, want different subjects", ann, bob)
	}
	check.Eventually(t, "an order is accepted, or the sale is not open yet", func() bool {
		a := n.send("POST", "/v1/orders", ann.Token, `{"sku":"demo","quantity":1}`)
		return a.status == 201 || a.code() == "not_open"
	})
	n.send("GET", "/v1/admin/sales/demo/audit", ann.Token, "").is(403)
	n.send("GET", "/v1/admin/sales/demo/audit", op.Token, "").is(200)
	n.send("POST", "/demo/token?role=king", "", "").is(400).says(`"field":"role"`)

	// A demo creates its next sale only after the previous one is over.
	if created, err := n.createDemoSale(t.Context()); err != nil || created != nil {
		t.Errorf("a second sale: %+v, %v", created, err)
	}
	n.put("demo", 1000, 1, 1, window(-2*time.Hour, -time.Hour)).ok()
	if created, err := n.createDemoSale(t.Context()); err != nil || created == nil || created.SKU != "demo-2" {
		t.Errorf("the next sale: %+v, %v", created, err)
	}
}

// The page is one file that loads nothing, under a strict policy.
func TestPage(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { c.Demo = true })
	a := n.send("GET", "/", "", "")
	policy := a.header.Get("Content-Security-Policy")
	if a.status != 200 || !a.has("data-demo") || !strings.HasPrefix(policy, "default-src 'none'; connect-src 'self'") ||
		strings.Contains(policy, "unsafe") {
		t.Errorf("%d under %q", a.status, policy)
	}
	for _, external := range []string{"src=", "@import", "url(", "https://"} {
		if a.has(external) {
			t.Errorf("the page contains %q", external)
		}
	}
}
