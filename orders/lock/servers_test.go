package lock

import (
	"bytes"
	"context"
	"flag"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/loadtest/servers/wire"
	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// More tests at a time than there are cores: they wait more than they work.
func TestMain(m *testing.M) {
	parallel := "32" // tests of real servers wait for leases, and need little CPU
	if servertest.Race {
		parallel = "8"
	}
	_ = flag.Set("test.parallel", parallel)
	servertest.Prepare()
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}

// eachStore runs test on miniredis, in a bubble of testing/synctest, and on a new real
// server.
func eachStore(t *testing.T, test func(t *testing.T, s server)) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		servertest.Bubble(t, func(t *testing.T) { test(t, server{servertest.InTime(t).Mini.Addr, soon}) })
	})
	t.Run("real", func(t *testing.T) { t.Parallel(); test(t, real(t)) })
}

type server struct {
	addr     string
	patience time.Duration // time limit for an event that happens on our scripts and never on a broken twin
}

// real is a redis-server process with nothing in it.
func real(t *testing.T) server {
	return server{servertest.OpenRedis(t, servers.KindReal).Real.Addr(), time.Until(check.Deadline(t))}
}

// connect returns a client with twice as many connections as a crowd has calls in flight.
func (s server) connect(t *testing.T) *redis.Client {
	return servertest.Connect(t, s.addr, func(o *redis.Options) { o.PoolSize = 40 })
}

// wired is the server behind a wire that loses answers.
type wired struct {
	server
	*wire.Wire
}

func newWire(t *testing.T, s server) *wired {
	w := servertest.OpenWire(t, s.addr)
	return &wired{server{w.Addr(), s.patience}, w}
}

// with is a match for commands that contain the marker.
func with(marker string) func(sent []byte) bool {
	return func(sent []byte) bool { return bytes.Contains(sent, []byte(marker)) }
}

// idle is a Client without Run: it renews nothing, as if its process were dead.
// Durations that cfg leaves out are long enough for a busy machine.
func (s server) idle(t *testing.T, cfg lease.Config) *Client {
	if cfg.Lease == 0 {
		cfg.Lease = soon
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = cfg.Lease * 2 / 3
	}
	return New(s.connect(t), cfg)
}

// client is a Client that runs until the test ends. With more than one set of
// scripts given, the last counts.
func (s server) client(t *testing.T, cfg lease.Config, other ...onredis.Scripts) *Client {
	c := s.idle(t, cfg)
	for _, o := range other {
		c.store.Scripts = o
	}
	run(t, c)
	return c
}

// run starts c.Run and returns what stops it and waits.
func run(t *testing.T, c *Client) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		check.OK(t, <-done)
	})
	t.Cleanup(stop)
	return stop
}

// soon is a timeout that is long enough for a busy machine.
const soon = time.Minute

// replace is a twin's change to a script; it must not be an idle one.
func replace(source, old, new string) string {
	if !strings.Contains(source, old) {
		panic("no " + old + " to replace")
	}
	return strings.ReplaceAll(source, old, new)
}
