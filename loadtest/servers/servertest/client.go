package servertest

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
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
	o.ContextTimeoutEnabled, o.DialerRetries = true, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = time.Minute, time.Minute, time.Minute, time.Minute
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
