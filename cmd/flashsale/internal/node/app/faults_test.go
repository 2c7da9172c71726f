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
		t.Errorf("list of sales without stores: got %d %s, want 503 with Retry-After", r.status, r.body)
	}
	check.Must(t, s.Mini.Restart(t.Context()))
	check.Receive(t, "the node is ready after Redis has started", a.Ready())
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
				t.Errorf("order of buyer %d while the node stops: got %d, want 201 or 503", i, status)
			}
		}
		http.DefaultClient.CloseIdleConnections()
		goleak.VerifyNone(t, before)
	})
}

// A stopping node serves everything for DrainDelay, on new connections too, while /readyz is
// 503. Its streams end after the delay.
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	delays, over := make(chan time.Duration, 1), make(chan time.Time)
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) {
		often("one")(c)
		c.DrainDelay = time.Hour
		c.After = func(d time.Duration) <-chan time.Time { delays <- d; return over }
	})
	n.put("S", 10, 2, 900)
	stream := watch(t, n.URL(), "S", "")
	stopped := make(chan error, 1)
	go func() { stopped <- n.stop() }()
	if got := check.Receive(t, "the node begins to stop", delays); got != time.Hour {
		t.Errorf("delay of the drain: got %v, want 1h", got)
	}
	http.DefaultClient.CloseIdleConnections() // new connections, as of a balancer
	n.send("GET", "/readyz", "", "").want(503)
	n.send("GET", "/livez", "", "").want(200)
	where := n.order("S", "ann").want(201).where()
	n.pay("ann", where, "r").want(200)
	n.send("GET", "/v1/sales/S", "", "").want(200)
	n.audit("S").want(200)
	stream.until("the payment", "sale", func(e seen) bool { return e.Sold == 1 })
	check.OK(t, check.Err(tryWatch(t, n.URL(), "S", "")))
	close(over)
	check.OK(t, check.Receive(t, "the node stops after the delay", stopped))
	stream.ends()
}

// A node that has not started, or that fails, stops without DrainDelay.
func TestDrainDelayIsForStartedNodes(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, servertest.Open(t, servers.KindEmbedded))
	cfg.SQL, cfg.DrainDelay = "u:p@tcp(127.0.0.1:1)/d", time.Hour
	cfg.After = func(time.Duration) <-chan time.Time {
		t.Error("node that has not started: it delays its stop")
		return time.After(0)
	}
	a, err := New(cfg)
	check.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.OK(t, a.Run(ctx))

	s := servertest.Open(t, servers.KindEmbedded)
	failing := start(t, s, func(c *Config) { c.DrainDelay, c.After = time.Hour, cfg.After })
	_ = failing.listener.Close()
	check.Eventually(t, "the node has stopped", func() bool { return failing.store.Ping(t.Context()) != nil })
	if err := failing.stop(); err == nil {
		t.Error("end of a node whose listener has failed: got no error, want one")
	}
}

func TestConfigNamesEverythingWrong(t *testing.T) {
	_, err := New(Config{Secret: "short", Redis: "nonsense", Lease: time.Millisecond, Namespace: "{a}",
		ReconcileEvery: time.Millisecond, ReconcileHoldsEvery: time.Millisecond})
	if err == nil {
		t.Fatal("New with an invalid Config: got no error, want one that names every wrong field")
	}
	for _, what := range []string{"--redis", "--mysql: ", "--secret: ", "at least 32", "--namespace: ", "--lease: ", "--reconcile-every: ", "--reconcile-holds-every: "} {
		if !strings.Contains(err.Error(), what) {
			t.Errorf("error of an invalid Config: it does not name %s: %v", what, err)
		}
	}
}

func TestPortInUse(t *testing.T) {
	s := servertest.Open(t, servers.KindEmbedded)
	n := start(t, s, nil)
	cfg := testConfig(t, s)
	cfg.Addr = strings.TrimPrefix(n.URL(), "http://")
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "--addr") {
		t.Errorf("second node on the same port: got error %v, want one that names --addr", err)
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
				t.Errorf("node with the eviction policy %s: got error %v, want it to run", policy, err)
			}
			continue
		}
		a, err := New(testConfig(t, s))
		check.Must(t, err)
		if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "noeviction") {
			t.Errorf("node with the eviction policy %s: got error %v, want one that names noeviction", policy, err)
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
		t.Errorf("stop the first node: got error %v, want none", err)
	}
	if !strings.Contains(log.String(), "same --secret") {
		t.Errorf("log of a node with another secret: it does not mention --secret:\n%s", log.String())
	}
}
