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

func TestMain(m *testing.M) {
	parallel := "32" // tests of real servers wait for leases and need little CPU
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
	patience time.Duration // time limit for an event that never happens with a broken script
}

// real starts an empty redis-server process.
func real(t *testing.T) server {
	return server{servertest.OpenRedis(t, servers.KindReal).Real.Addr(), time.Until(check.Deadline(t))}
}

// connect returns a client with twice as many connections as crowd has calls in flight.
func (s server) connect(t *testing.T) *redis.Client {
	return servertest.Connect(t, s.addr, func(o *redis.Options) { o.PoolSize = 40 })
}

// wired is a server behind a wire that can lose answers.
type wired struct {
	server
	*wire.Wire
}

func newWire(t *testing.T, s server) *wired {
	w := servertest.OpenWire(t, s.addr)
	return &wired{server{w.Addr(), s.patience}, w}
}

// with returns a filter for commands that contain marker.
func with(marker string) func(sent []byte) bool {
	return func(sent []byte) bool { return bytes.Contains(sent, []byte(marker)) }
}

// idle returns a Client without Run, which renews nothing, as if its process had crashed. The
// default durations are long enough for a busy machine.
func (s server) idle(t *testing.T, cfg lease.Config) *Client {
	if cfg.Lease == 0 {
		cfg.Lease = soon
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = cfg.Lease * 2 / 3
	}
	return New(s.connect(t), cfg)
}

// client returns a Client that runs until the test ends. If scripts are given, the client uses
// the last of them.
func (s server) client(t *testing.T, cfg lease.Config, other ...onredis.Scripts) *Client {
	c := s.idle(t, cfg)
	for _, o := range other {
		c.store.Scripts = o
	}
	run(t, c)
	return c
}

// run starts c.Run, and returns a function that stops it and waits for its end.
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

// replace breaks a script by replacing old. It panics if source does not contain old.
func replace(source, old, new string) string {
	if !strings.Contains(source, old) {
		panic("script does not contain " + old)
	}
	return strings.ReplaceAll(source, old, new)
}
