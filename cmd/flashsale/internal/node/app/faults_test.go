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
	"flashsale/loadtest/servers/servertest/check"
)

// A server is a store that a test can kill and restart.
type server interface {
	Kill()
	Restart(context.Context) error
}

func redisOf(s *servers.Stores) server {
	if s.Mini != nil {
		return s.Mini
	}
	return s.Redis
}

// ownMySQL starts a database server and sets the SQL of s to a database on it.
func ownMySQL(t *testing.T, s *servers.Stores, options servers.MySQLConfig) *servers.MySQL {
	t.Helper()
	m := servertest.OpenMySQL(t, options)
	var err error
	s.SQL, err = m.NewDatabase(t.Context(), "flashsale")
	check.Must(t, err)
	return m
}

// If Redis is down at the start, the node listens, is not ready, and waits.
func TestStoresAbsentAtStart(t *testing.T) {
	s := servertest.Open(t, servers.KindEmbedded)
	s.Mini.Kill()
	a, err := New(testConfig(t, s))
	check.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	n := &node{App: a, t: t}
	n.send("GET", "/livez", "", "").want(200)
	n.send("GET", "/readyz", "", "").want(503)
	if r := n.send("GET", "/v1/sales", "", ""); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("sales: %d %s", r.status, r.body)
	}
	check.Must(t, s.Mini.Restart(t.Context()))
	check.Receive(t, "ready after Redis has started", a.Ready())
	cancel()
	check.OK(t, <-done)
}

// A node that stops finishes accepted requests and leaves no goroutine.
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
					return // the node no longer listened
				}
				defer func() { _ = res.Body.Close() }()
				statuses[i] = res.StatusCode
			}()
		}
		sent.Wait()
		check.OK(t, n.stop())
		answered.Wait()
		for i, status := range statuses {
			if status != 0 && status != 201 && status != 503 {
				t.Errorf("buyer %d: got %d, want 201 or 503", i, status)
			}
		}
		http.DefaultClient.CloseIdleConnections()
		goleak.VerifyNone(t, before)
	})
}

func TestConfigNamesEverythingWrong(t *testing.T) {
	_, err := New(Config{Secret: "short", Redis: "nonsense", Lease: time.Millisecond,
		ReconcileEvery: time.Millisecond, ReconcileHoldsEvery: time.Millisecond})
	if err == nil {
		t.Fatal("an invalid Config is accepted")
	}
	for _, what := range []string{"redis", "mysql", "secret", "at least 32", "lease", "reconcile-every", "reconcile-holds-every"} {
		if !strings.Contains(err.Error(), what) {
			t.Errorf("the error does not name %s: %v", what, err)
		}
	}
}

func TestPortInUse(t *testing.T) {
	s := servertest.Open(t, servers.KindEmbedded)
	n := start(t, s, nil)
	cfg := testConfig(t, s)
	cfg.Addr = strings.TrimPrefix(n.URL(), "http://")
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "--addr") {
		t.Errorf("second node on the same port: %v", err)
	}
}

// Several hosts are a cluster or, with redis+sentinel, sentinels. Errors contain no
// password.
func TestRedisURL(t *testing.T) {
	o, err := redisOptions("redis://user:pass@a:1,b:2,c:3/0")
	if err != nil || fmt.Sprint(o.Addrs) != "[a:1 b:2 c:3]" || !o.IsClusterMode || o.Password != "pass" {
		t.Errorf("cluster: got %+v, %v", o, err)
	}
	if one, err := redisOptions("redis://a:1/2"); err != nil || one.IsClusterMode || one.DB != 2 {
		t.Errorf("single server: got %+v, %v", one, err)
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
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
	if _, err := redisOptions("redis+sentinel://a:1"); err == nil || !strings.Contains(err.Error(), "master") {
		t.Errorf("a sentinel URL without a master: %v", err)
	}
	_, err = redisOptions("user:geheim@host")
	if err == nil || strings.Contains(err.Error(), "geheim") {
		t.Error(err)
	}
	if got := Redact("root:geheim@tcp(h:1)/db"); got != "root:***@tcp(h:1)/db" {
		t.Error(got)
	}
}

// A node does not start if Redis may evict keys of the gate. The error names the setting.
func TestEvictionPolicy(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindReal)
	rdb := openRedis(t, s.RedisURL)
	for policy, refused := range map[string]bool{"allkeys-lru": true, "allkeys-random": true, "volatile-lru": false, "noeviction": false} {
		check.Must(t, rdb.ConfigSet(t.Context(), "maxmemory-policy", policy).Err())
		if !refused {
			if err := start(t, s, nil).stop(); err != nil {
				t.Errorf("%s: %v", policy, err)
			}
			continue
		}
		a, err := New(testConfig(t, s))
		check.Must(t, err)
		if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "noeviction") {
			t.Errorf("%s: %v", policy, err)
		}
	}
}

// Nodes with different secrets reject each other's tokens, and the log contains the cause.
func TestDifferentSecrets(t *testing.T) {
	s := servertest.Open(t, servers.KindEmbedded)
	log := check.Output(t)
	one := start(t, s, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(log, nil)) })
	two := start(t, s, func(c *Config) { c.Secret = "another " + secret })
	one.send("GET", "/v1/orders", two.token("ann", false), "").want(401)
	if err := one.stop(); err != nil { // the log is complete
		t.Error(err)
	}
	if !strings.Contains(log.String(), "same --secret") {
		t.Errorf("the log does not mention --secret:\n%s", log.String())
	}
}
