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

// Connect returns a client of the Redis at a URL or an address, and closes it when the
// test ends. All timeouts are a minute, so that the client does not mistake a slow machine
// for a failed server. The client also observes the deadlines of contexts.
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
		o.PoolSize = 2000 // a caller that waited for a connection would use a timer of another bubble
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

// Epoch is the initial time of a server that StartWithFrozenClock starts: 1 ms before a full
// second.
var Epoch = time.UnixMicro(1_000_000_000_999_000)

// StartWithFrozenClock starts a miniredis whose clock moves only when SetTime is called, and whose
// keys expire by that clock. The client that it returns does not retry commands.
func StartWithFrozenClock(tb testing.TB) (*miniredis.Miniredis, *redis.Client) {
	tb.Helper()
	server := miniredis.RunT(tb)
	server.SetTime(Epoch)
	server.ClockTTL(true)
	return server, Connect(tb, server.Addr(), func(o *redis.Options) { o.MaxRetries = -1 })
}

// EachRedisInTime is EachRedis for tests that wait for a lease or a timeout. The embedded half
// runs in a bubble of testing/synctest, where a wait takes no time and does not depend on the
// machine. InTime starts the Redis of this half.
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

// Bubble runs f in a bubble of testing/synctest. After f, the fake clock moves on by an
// hour, so that abandoned calls reach their timeouts and the bubble can end.
func Bubble(t *testing.T, f func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Hour) })
		f(t)
	})
}

// InTime starts an embedded Redis in the bubble of t, for the rest of the test. It uses
// the fake clock of the bubble. Clients reach it through wire.Dial, which Connect uses.
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
