package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// stoppable are stores of which each can be stopped and started again.
func stoppable(t *testing.T, kind string) (s *servers.Stores, redis, mysql interface {
	Kill()
	Restart(context.Context) error
}) {
	t.Helper()
	s = servertest.Open(t, kind)
	if s.Mini != nil {
		return s, s.Mini, nil // SQLite is a file: it is always there
	}
	m, err := servers.StartMySQL(t.Context(), servers.MySQLOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	if s.SQL, err = m.NewDatabase(t.Context(), "flashsale"); err != nil {
		t.Fatal(err)
	}
	return s, s.Redis, m
}

// A store that goes away while the node sells: 503 with Retry-After, no panic,
// and by itself on again when it is back, with every yes still there.
func TestStoreGoesAndComesBack(t *testing.T) {
	for _, kind := range servertest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			s, redis, mysql := stoppable(t, kind)
			n := start(t, s, func(c *Config) {
				c.Lease = 2 * time.Second
				c.DirectAfter = time.Hour // see TestSellsWithoutRedis
			})
			n.put("S", 1000, 1, 900)
			ann := n.token("ann", false)
			first := n.send("POST", "/v1/orders", ann, `{"sku":"S","quantity":1}`, "Idempotency-Key: k")
			if first.status != 201 {
				t.Fatalf("%d %s", first.status, first.body)
			}
			for name, store := range map[string]interface {
				Kill()
				Restart(context.Context) error
			}{"redis": redis, "mysql": mysql} {
				if store == nil {
					continue
				}
				store.Kill()
				buyer := n.token("during-"+name, false)
				eventually(t, name+" is missed", func() bool {
					a := n.send("GET", "/readyz", "", "")
					return a.status == 503 && strings.Contains(a.body, name) && a.header.Get("Retry-After") != ""
				})
				a := n.send("POST", "/v1/orders", buyer, `{"sku":"S","quantity":1}`, "Idempotency-Key: k")
				if a.status == 503 && (a.code() != "unavailable" || a.header.Get("Retry-After") == "") || a.status != 503 && a.status != 202 {
					t.Errorf("order while %s is away: %d %s", name, a.status, a.body)
				}
				if err := store.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				eventually(t, "selling again after "+name, func() bool {
					a := n.send("POST", "/v1/orders", buyer, `{"sku":"S","quantity":1}`, "Idempotency-Key: k")
					return a.status == 201
				})
			}
			again := n.send("POST", "/v1/orders", ann, `{"sku":"S","quantity":1}`, "Idempotency-Key: k")
			if again.status != 201 || again.body != first.body {
				t.Errorf("the first yes: %d %s, was %s", again.status, again.body, first.body)
			}
			eventually(t, "balanced", func() bool {
				return strings.Contains(n.send("GET", "/v1/admin/sales/S/audit", n.token("op", true), "").body, `"balanced":true`)
			})
		})
	}
}

// Nothing is there at the start: the node listens, says it is not ready, waits.
func TestStoresAbsentAtStart(t *testing.T) {
	s := servertest.Open(t, servers.KindEmbedded)
	s.Mini.Kill()
	a, err := New(testConfig(s))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	n := &node{App: a, t: t}
	if r := n.send("GET", "/livez", "", ""); r.status != 200 {
		t.Errorf("livez: %d", r.status)
	}
	if r := n.send("GET", "/readyz", "", ""); r.status != 503 {
		t.Errorf("readyz: %d", r.status)
	}
	if r := n.send("GET", "/v1/sales", "", ""); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("sales: %d %s", r.status, r.body)
	}
	if err := s.Mini.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.Ready():
	case <-time.After(10 * time.Second):
		t.Fatal("not ready after Redis came")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A node that is told to stop finishes what it accepted, and leaves nothing
// running behind.
func TestStopsCleanly(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		before := goleak.IgnoreCurrent()
		n := start(t, s, nil)
		n.put("S", 1000, 1, 900)
		const buyers = 100
		statuses := make([]int, buyers)
		var sent, answered sync.WaitGroup
		for i := range buyers {
			token := n.token(fmt.Sprint("buyer-", i), false)
			sent.Add(1)
			answered.Add(1)
			go func() {
				defer answered.Done()
				req, _ := http.NewRequestWithContext(t.Context(), "POST", n.URL()+"/v1/orders", strings.NewReader(`{"sku":"S","quantity":1}`))
				req.Header.Set("Authorization", "Bearer "+token)
				req.Header.Set("Content-Type", "application/json")
				sent.Done()
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					return // it came after the node stopped listening
				}
				defer func() { _ = res.Body.Close() }()
				statuses[i] = res.StatusCode
			}()
		}
		sent.Wait()
		if err := n.stop(); err != nil {
			t.Error(err)
		}
		answered.Wait()
		for i, status := range statuses {
			if status != 0 && status != 201 && status != 503 {
				t.Errorf("buyer %d: %d", i, status)
			}
		}
		http.DefaultClient.CloseIdleConnections()
		goleak.VerifyNone(t, before)
	})
}

func TestConfigNamesEverythingWrong(t *testing.T) {
	_, err := New(Config{Secret: "short", Strategy: "magic", Redis: "nonsense", Lease: time.Millisecond,
		ReconcileEvery: time.Millisecond, ReconcileHoldsEvery: time.Millisecond})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, what := range []string{"redis", "mysql", "secret", "at least 32", "strategy", "lease", "reconcile-every", "reconcile-holds-every"} {
		if !strings.Contains(err.Error(), what) {
			t.Errorf("does not name %s: %v", what, err)
		}
	}
}

func TestPortInUse(t *testing.T) {
	s := servertest.Open(t, servers.KindEmbedded)
	n := start(t, s, nil)
	cfg := testConfig(s)
	cfg.Addr = strings.TrimPrefix(n.URL(), "http://")
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "--addr") {
		t.Errorf("second node on the same port: %v", err)
	}
}

// Several hosts make a cluster, or are the sentinels of a master; a password shows
// up nowhere.
func TestRedisURL(t *testing.T) {
	o, err := redisOptions("redis://user:pass@a:1,b:2,c:3/0")
	if err != nil || fmt.Sprint(o.Addrs) != "[a:1 b:2 c:3]" || !o.IsClusterMode || o.Password != "pass" {
		t.Errorf("%+v, %v", o, err)
	}
	if one, err := redisOptions("redis://a:1/2"); err != nil || one.IsClusterMode || one.DB != 2 {
		t.Errorf("%+v, %v", one, err)
	}
	for url, want := range map[string]string{
		"redis+sentinel://user:p@a:1,b:2/shop/3": "[a:1 b:2] shop 3 p",
		"redis+sentinel://a:1/shop":              "[a:1] shop 0 ",
		"redis+sentinel://a:1/shop?db=2":         "[a:1] shop 2 ",
	} {
		o, err := redisOptions(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := fmt.Sprint(o.Addrs, " ", o.MasterName, " ", o.DB, " ", o.Password); got != want || o.IsClusterMode {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
	if _, err := redisOptions("redis+sentinel://a:1"); err == nil || !strings.Contains(err.Error(), "master") {
		t.Errorf("a sentinel URL without a master: %v", err)
	}
	_, err = redisOptions("user:geheim@host")
	if err == nil || strings.Contains(err.Error(), "geheim") {
		t.Error(err)
	}
	if got := redact("root:geheim@tcp(h:1)/db"); got != "root:***@tcp(h:1)/db" {
		t.Error(got)
	}
}

// A Redis that could drop stock is refused, with the setting to change.
func TestEvictionPolicy(t *testing.T) {
	s := servertest.Open(t, servers.KindReal)
	rdb := openRedis(t, s.RedisURL)
	for policy, refused := range map[string]bool{"allkeys-lru": true, "allkeys-random": true, "volatile-lru": false, "noeviction": false} {
		if err := rdb.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		if !refused {
			if err := start(t, s, nil).stop(); err != nil {
				t.Errorf("%s: %v", policy, err)
			}
			continue
		}
		a, err := New(testConfig(s))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "noeviction") {
			t.Errorf("%s: %v", policy, err)
		}
	}
}

// Nodes with different secrets refuse each other's tokens, and the log says why.
func TestDifferentSecrets(t *testing.T) {
	s := servertest.Open(t, servers.KindEmbedded)
	var log strings.Builder
	one := start(t, s, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	two := start(t, s, func(c *Config) { c.Secret = "another " + secret })
	if a := one.send("GET", "/v1/orders", two.token("ann", false), ""); a.status != 401 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if err := one.stop(); err != nil { // the log is whole
		t.Error(err)
	}
	if !strings.Contains(log.String(), "same --secret") {
		t.Errorf("the log does not say so:\n%s", log.String())
	}
}
