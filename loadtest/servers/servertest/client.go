package servertest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/wire"
)

// Connect returns a client of the Redis at a URL or an address, for the rest of
// the test. Its timeouts are a minute: a starved process is not taken for a
// server that is away. Deadlines of contexts count.
func Connect(tb testing.TB, url string, adjust ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	if !strings.Contains(url, "://") {
		url = "redis://" + url
	}
	o, err := redis.ParseURL(url)
	require(tb, err)
	o.ContextTimeoutEnabled, o.DialerRetries, o.Dialer = true, 1, wire.Dial
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = time.Minute, time.Minute, time.Minute, time.Minute
	if wire.InMemory(o.Addr) {
		o.PoolSize = 2000 // who waits for a connection does so by a timer of another bubble
		// The handshake for these notifications sleeps while it holds a mutex. If another
		// goroutine of the bubble waits for the mutex, the bubble's clock stands still.
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	}
	for _, f := range adjust {
		f(o)
	}
	rdb := redis.NewClient(o)
	tb.Cleanup(func() { _ = rdb.Close() }) // the test may have closed it
	return rdb
}

// Epoch is where the clock of Frozen starts: 1 ms before a full second.
var Epoch = time.UnixMicro(1_000_000_000_999_000)

// Frozen starts a miniredis whose clock stands still until SetTime, and whose keys
// expire by that clock. Its client sends nothing twice.
func Frozen(tb testing.TB) (*miniredis.Miniredis, *redis.Client) {
	tb.Helper()
	server := miniredis.RunT(tb)
	server.SetTime(Epoch)
	server.ClockTTL(true)
	return server, Connect(tb, server.Addr(), func(o *redis.Options) { o.MaxRetries = -1 })
}

// EachRedisInTime is EachRedis for tests that wait for a lease or a timeout. The
// embedded half runs in a bubble of testing/synctest, where such a wait takes no time
// and a busy machine changes nothing: its Redis is in the network of wire.Serve.
func EachRedisInTime(t *testing.T, f func(t *testing.T, r *Redis)) {
	t.Helper()
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			if kind == servers.KindEmbedded {
				Bubble(t, func(t *testing.T) { f(t, InTime(t)) })
				return
			}
			f(t, OpenRedis(t, kind))
		})
	}
}

// Bubble runs a test in a bubble of testing/synctest. Calls that nobody waits for any
// more end by their timeouts before the bubble does.
func Bubble(t *testing.T, f func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Hour) })
		f(t)
	})
}

// InTime returns an embedded Redis for the bubble that t runs in. Its clock is the
// bubble's.
func InTime(t *testing.T) *Redis {
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)
	addr, stop := wire.Serve(mini.Dial)
	t.Cleanup(func() { stop(); mini.Close() })
	return &Redis{
		Kind: servers.KindEmbedded, URL: "redis://" + addr,
		Mini: &servers.MiniRedis{URL: "redis://" + addr, Addr: addr, Server: mini},
	}
}
