package ratelimit

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/ratelimit/limit"
)

// TestMain fails if a goroutine is left at the end.
func TestMain(m *testing.M) {
	servertest.Prepare()
	goleak.VerifyTestMain(m)
}

// onEachStore runs test on the embedded Redis and on a real Redis.
func onEachStore(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Run("embedded", func(t *testing.T) {
		_, client := startEmbedded(t)
		test(t, client)
	})
	t.Run("real", func(t *testing.T) { test(t, startReal(t)) })
}

// startEmbedded starts a miniredis with a clock that the test sets.
func startEmbedded(t testing.TB) (*miniredis.Miniredis, *redis.Client) {
	return servertest.StartWithFrozenClock(t)
}

// epoch is the first time of that clock.
var epoch = servertest.Epoch

// startReal starts a redis-server that writes nothing to disk.
func startReal(t testing.TB) *redis.Client {
	t.Helper()
	client := servertest.Connect(t, servertest.OpenRedis(t, servers.KindReal).URL, func(o *redis.Options) { o.PoolSize = 64 })
	check.Must(t, client.ConfigSet(t.Context(), "appendonly", "no").Err())
	return client
}

// patient is a Config with a timeout that suffices on a busy machine.
var patient = Config{Timeout: time.Hour}

// Defaults of Config.
const (
	defaultPrefix   = "rate"
	defaultRemember = 10 * time.Second
)

// Buckets of a shop.
func forBuyer(id string, l limit.Limit) Bucket { return Bucket{Name: "buyer", ID: id, Limit: l} }
func forSKU(sku string, l limit.Limit) Bucket  { return Bucket{Name: "sku", ID: sku, Limit: l} }
func forIP(addr string, l limit.Limit) Bucket  { return Bucket{Name: "ip", ID: addr, Limit: l} }
func forRoute(name string, l limit.Limit) Bucket {
	return Bucket{Name: "route", ID: name, Limit: l}
}

// parse returns a limit whose text is valid.
func parse(t testing.TB, text string) limit.Limit {
	t.Helper()
	l, err := limit.Parse(text)
	check.Must(t, err)
	return l
}

// allow calls Allow and fails the test on an error.
func allow(t testing.TB, l *Limiter, cost int, buckets ...Bucket) Result {
	t.Helper()
	r, err := l.Allow(t.Context(), cost, buckets...)
	check.Must(t, err)
	return r
}

// left returns the number of tokens in a bucket.
func left(t testing.TB, client redis.UniversalClient, b Bucket) int64 {
	t.Helper()
	l := New(client, Config{})
	r := allow(t, l, 1, b)
	if !r.Allowed {
		return r.Remaining
	}
	giveBack(t, client, 1, b)
	return r.Remaining + 1
}

// giveBack returns tokens that were taken at the present time.
func giveBack(t testing.TB, client redis.UniversalClient, tokens int64, b Bucket) {
	t.Helper()
	now, err := client.Time(t.Context()).Result()
	check.Must(t, err)
	back := []ask{{cost: -tokens, buckets: []Bucket{b}, taken: now.UnixMicro()}}
	check.Must(t, New(client, Config{}).take(t.Context(), back)[0].err)
}
