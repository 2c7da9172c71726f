package app

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/ratelimit"
)

func TestMain(m *testing.M) { servertest.Main(m) }

const secret = "a secret of these tests, 32 bytes long at least"

// A node is the real program on a port of its own, and a client of it.
type node struct {
	*App
	t    testing.TB
	stop func() error // a clean shutdown; the test's end does it as well
}

func testConfig(s *servers.Stores) Config {
	level := slog.LevelError + 1
	if os.Getenv("FLASHSALE_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return Config{
		Addr: "127.0.0.1:0", Redis: s.RedisURL, SQL: s.SQL, Secret: secret,
		TrustedProxies: []string{"127.0.0.1"},
		Log:            slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	}
}

// start runs a node until it is ready. change may alter its config.
func start(t testing.TB, s *servers.Stores, change func(*Config)) *node {
	t.Helper()
	cfg := testConfig(s)
	if change != nil {
		change(&cfg)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{App: a, t: t}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	var stopped bool
	n.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Errorf("node stopped with %v", err)
		}
	})
	select {
	case <-a.Ready():
	case err := <-done:
		stopped = true
		t.Fatalf("node did not start: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("node not ready in 20 s")
	}
	return n
}

// An answer is what came back, read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) code() string {
	var p struct{ Code string }
	_ = json.Unmarshal([]byte(a.body), &p)
	return p.Code
}

func (a answer) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("%d %q: %v", a.status, a.body, err)
	}
}

// send makes one request. header is "Name: value" lines.
func (n *node) send(method, path, token, body string, header ...string) answer {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 2*time.Minute) // a stream that should have been refused has no end
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.URL()+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
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
		n.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	if res.Header.Get("X-Request-Id") == "" {
		n.t.Errorf("%s %s: no X-Request-Id", method, path)
	}
	if res.StatusCode >= 400 && res.Header.Get("Content-Type") != "application/problem+json" {
		n.t.Errorf("%s %s: %d as %q: %s", method, path, res.StatusCode, res.Header.Get("Content-Type"), raw)
	}
	asDescribed(n.t, req, res, raw)
	return answer{status: res.StatusCode, header: res.Header, body: string(bytes.TrimSpace(raw))}
}

// token of a buyer, or of an operator.
func (n *node) token(subject string, admin bool) string {
	n.t.Helper()
	token, err := n.Token(subject, admin)
	if err != nil {
		n.t.Fatal(err)
	}
	return token
}

// put creates or changes a sale that is open now.
func (n *node) put(sku string, total, perBuyer, windowSeconds int) answer {
	n.t.Helper()
	body, err := json.Marshal(map[string]any{
		"name": "A thing", "price": 1999, "currency": "EUR", "total": total, "per_buyer_limit": perBuyer,
		"opens_at": time.Now().Add(-time.Hour), "closes_at": time.Now().Add(time.Hour), "payment_window_s": windowSeconds,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	put := func() answer { return n.send("PUT", "/v1/admin/sales/"+sku, n.token("operator", true), string(body)) }
	a := put()
	if a.status == 503 { // a busy machine: the change stands, and is on its way to the gate
		eventually(n.t, sku+" at the gate", func() bool { a = put(); return a.status != 503 })
	}
	return a
}

// eventually polls until ok, for at most thirty seconds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func limit(t testing.TB, text string) ratelimit.Limit {
	t.Helper()
	l, err := ratelimit.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func openRedis(t testing.TB, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
