package compare

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/ratelimit"
	"flashsale/ratelimit/limit"
)

// A limiterBound is a limit that both limiters support: the rates of redis_rate are integers.
type limiterBound struct {
	rate  int
	per   time.Duration
	burst int
}

var (
	far    = limiterBound{1_000_000, time.Second, 1_000_000} // never reached
	scarce = limiterBound{1, time.Hour, 1}                   // reached at once
	busy   = limiterBound{1000, time.Second, 100}            // reached all the time
)

// An admission asks a limiter for one token from each key.
type admission func(ctx context.Context, keys []string, b limiterBound) (allowed bool, err error)

// A limiterKind is a limiter in one configuration.
type limiterKind struct {
	name string
	pool int // connections; 0 for the client's default
	open func(redis.UniversalClient) admission
}

var limiterKinds = []limiterKind{
	{"redis_rate", 0, openRedisRate},
	{"redis_rate,connections=256", 256, openRedisRate},
	{"ours", 0, func(c redis.UniversalClient) admission { return openOurs(c, 0) }},
	{"ours,asking_each_time", 0, func(c redis.UniversalClient) admission { return openOurs(c, -1) }},
}

// openRedisRate returns an admission that asks for one key after the other until one is
// denied. redis_rate has no call for several keys, and does not return the tokens of earlier
// keys when a later one is denied.
func openRedisRate(client redis.UniversalClient) admission {
	l := redis_rate.NewLimiter(client)
	return func(ctx context.Context, keys []string, b limiterBound) (bool, error) {
		for _, key := range keys {
			r, err := l.Allow(ctx, key, redis_rate.Limit{Rate: b.rate, Period: b.per, Burst: b.burst})
			if err != nil || r.Allowed == 0 {
				return false, err
			}
		}
		return true, nil
	}
}

func openOurs(client redis.UniversalClient, remember time.Duration) admission {
	l := ratelimit.New(client, ratelimit.Config{Remember: remember})
	return func(ctx context.Context, keys []string, b limiterBound) (bool, error) {
		bound, err := limit.New(int64(b.rate), b.per, int64(b.burst))
		if err != nil {
			return false, err
		}
		buckets := make([]ratelimit.Bucket, len(keys))
		for i, key := range keys {
			buckets[i] = ratelimit.Bucket{Name: "limit" + strconv.Itoa(i), ID: key, Limit: bound}
		}
		r, err := l.Allow(ctx, 1, buckets...)
		return r.Allowed, err
	}
}

// A limiterCase is a kind of traffic; keys returns the keys of the nth request.
type limiterCase struct {
	name  string
	limit limiterBound
	keys  func(n int64) []string
}

func spreadKey(n int64) string { return "buyer-" + strconv.FormatInt(n%4096, 10) }

var limiterCases = []limiterCase{
	{"hot_key,allowed", far, func(int64) []string { return []string{"sku"} }},
	{"4096_keys,allowed", far, func(n int64) []string { return []string{spreadKey(n)} }},
	{"three_limits,allowed", far, func(n int64) []string { return []string{spreadKey(n), "ip", "sku"} }},
	{"hot_key,denied", scarce, func(int64) []string { return []string{"sku"} }},
	{"hot_key,1000_a_second", busy, func(int64) []string { return []string{"sku"} }},
}

// BenchmarkLimiter measures 256 callers in two processes, and a single caller, which cannot
// share a round trip. It fails if a limiter allows too many or too few requests, because
// denying a request is faster than counting it.
func BenchmarkLimiter(b *testing.B) {
	eachLatency(b, func(b *testing.B, w *way) {
		for _, callers := range []int{256, 1} {
			for _, c := range limiterCases {
				if callers == 1 && c.limit != far {
					continue
				}
				for _, k := range limiterKinds {
					b.Run(fmt.Sprintf("callers=%d/%s/%s", callers, c.name, k.name), func(b *testing.B) { limited(b, w, callers, c, k) })
				}
			}
		}
	})
}

func limited(b *testing.B, w *way, callers int, c limiterCase, k limiterKind) {
	addr := w.Addr()
	if w.latency == 0 {
		addr = w.redis.Options().Addr // without the wire
	}
	check.Must(b, w.redis.FlushAll(b.Context()).Err())
	var ask []admission
	for range min(callers, 2) {
		client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: k.pool})
		b.Cleanup(func() { _ = client.Close() })
		ask = append(ask, k.open(client))
		_, err := ask[len(ask)-1](b.Context(), []string{"warm"}, far) // connects, and loads the script
		check.Must(b, err)
	}
	var passed atomic.Int64
	b.ResetTimer()
	share(b, callers, func(caller, n int) error {
		ok, err := ask[caller%len(ask)](b.Context(), c.keys(int64(n)), c.limit)
		if ok {
			passed.Add(1)
		}
		return err
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
	allowed, burst := passed.Load(), int64(c.limit.burst)
	upper := float64(burst) + float64(c.limit.rate)*b.Elapsed().Seconds()/c.limit.per.Seconds()
	if c.limit == far && allowed != int64(b.N) || allowed < min(burst, int64(b.N)) || float64(allowed) > upper*1.01 {
		b.Errorf("benchmark: got %d of %d requests allowed in %v, want %d to %.0f", allowed, b.N, b.Elapsed(), min(burst, int64(b.N)), upper*1.01)
	}
}
