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

// Every test closes what it opens: a goroutine left at the end is a failure. More
// tests at a time than there are cores: they wait more than they work.
func TestMain(m *testing.M) {
	servertest.Prepare()
	goleak.VerifyTestMain(m)
}

// onEachStore runs a test on the embedded Redis and on a real one.
func onEachStore(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Run("embedded", func(t *testing.T) {
		_, client := startEmbedded(t)
		test(t, client)
	})
	t.Run("real", func(t *testing.T) { test(t, startReal(t)) })
}

// startEmbedded starts a miniredis with a clock that the test sets.
func startEmbedded(t testing.TB) (*miniredis.Miniredis, *redis.Client) { return servertest.Frozen(t) }

// epoch is the initial time of that clock.
var epoch = servertest.Epoch

// startReal starts a redis-server that writes nothing to disk.
func startReal(t testing.TB) *redis.Client {
	t.Helper()
	client := servertest.Connect(t, servertest.OpenRedis(t, servers.KindReal).URL, func(o *redis.Options) { o.PoolSize = 64 })
	check.Must(t, client.ConfigSet(t.Context(), "appendonly", "no").Err())
	return client
}

// patient is a Config whose timeout is long enough for a starved Redis.
var patient = Config{Timeout: time.Hour}

// The defaults of Config.
const (
	defaultPrefix   = "rate"
	defaultRemember = 10 * time.Second
)

// Kinds of buckets, as a shop has them.
func forBuyer(id string, l limit.Limit) Bucket { return Bucket{Name: "buyer", ID: id, Limit: l} }
func forSKU(sku string, l limit.Limit) Bucket  { return Bucket{Name: "sku", ID: sku, Limit: l} }
func forIP(addr string, l limit.Limit) Bucket  { return Bucket{Name: "ip", ID: addr, Limit: l} }
func forRoute(name string, l limit.Limit) Bucket {
	return Bucket{Name: "route", ID: name, Limit: l}
}

// parse is limit.Parse for limits that are known to be good.
func parse(t testing.TB, text string) limit.Limit {
	t.Helper()
	l, err := limit.Parse(text)
	check.Must(t, err)
	return l
}

// allow is Allow for requests that must get an answer.
func allow(t testing.TB, l *Limiter, cost int, buckets ...Bucket) Result {
	t.Helper()
	r, err := l.Allow(t.Context(), cost, buckets...)
	check.Must(t, err)
	return r
}

// left is the tokens in a bucket that a request of 1 would find.
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

// giveBack returns tokens that were taken just now.
func giveBack(t testing.TB, client redis.UniversalClient, tokens int64, b Bucket) {
	t.Helper()
	now, err := client.Time(t.Context()).Result()
	check.Must(t, err)
	back := []ask{{cost: -tokens, buckets: []Bucket{b}, taken: now.UnixMicro()}}
	check.Must(t, New(client, Config{}).take(t.Context(), back)[0].err)
}
