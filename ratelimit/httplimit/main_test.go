package httplimit

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/ratelimit"
	"flashsale/ratelimit/limit"
)

// Every test closes what it opens: a goroutine left at the end is a failure.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startEmbedded starts a miniredis whose clock stands still until SetTime, and whose
// keys expire by that clock.
func startEmbedded(t testing.TB) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	server := miniredis.NewMiniRedis()
	check.Must(t, server.Start())
	t.Cleanup(server.Close)
	server.SetTime(epoch)
	server.ClockTTL(true)
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
	})
	t.Cleanup(func() { _ = client.Close() })
	return server, client
}

// epoch is where the embedded clock starts: 1 ms before a full second.
var epoch = time.UnixMicro(1_000_000_000_999_000)

func forBuyer(id string, l limit.Limit) ratelimit.Bucket {
	return ratelimit.Bucket{Name: "buyer", ID: id, Limit: l}
}

// parse is limit.Parse for limits that are known to be good.
func parse(t testing.TB, text string) limit.Limit {
	t.Helper()
	l, err := limit.Parse(text)
	check.Must(t, err)
	return l
}
