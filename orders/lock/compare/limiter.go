package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"flashsale/ratelimit"
	"flashsale/ratelimit/limit"
)

// A limit that both sides can say: redis_rate's rates are whole numbers.
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

// admission is what a limiter does here: ask for one token from each key.
type admission func(ctx context.Context, keys []string, b limiterBound) (allowed bool, err error)

// limiterKind is a limiter as one process has it.
type limiterKind struct {
	name string
	pool int // connections; 0 for the client's default
	open func(redis.UniversalClient) admission
	peer bool
}

var limiterKinds = []limiterKind{
	{"redis_rate", 0, openRedisRate, true},
	{"redis_rate, 256 connections", 256, openRedisRate, true},
	{"ours", 0, func(c redis.UniversalClient) admission { return openOurs(c, 0) }, false},
	{"ours, asking each time", 0, func(c redis.UniversalClient) admission { return openOurs(c, -1) }, false},
}

// openRedisRate asks for one key after the other, until one refuses: it has no
// call for several, and what the first has given is gone when the second
// refuses.
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
		most, err := limit.New(int64(b.rate), b.per, int64(b.burst))
		if err != nil {
			return false, err
		}
		buckets := make([]ratelimit.Bucket, len(keys))
		for i, key := range keys {
			buckets[i] = ratelimit.Bucket{Name: "limit" + strconv.Itoa(i), ID: key, Limit: most}
		}
		r, err := l.Allow(ctx, 1, buckets...)
		return r.Allowed, err
	}
}

// limiterCase is a kind of traffic: which keys the nth request has.
type limiterCase struct {
	name  string
	limit limiterBound
	keys  func(n int64) []string
}

func spreadKey(n int64) string { return "buyer-" + strconv.FormatInt(n%4096, 10) }

var limiterCases = []limiterCase{
	{"hot key, allowed", far, func(int64) []string { return []string{"sku"} }},
	{"4096 keys, allowed", far, func(n int64) []string { return []string{spreadKey(n)} }},
	{"three limits, allowed", far, func(n int64) []string { return []string{spreadKey(n), "ip", "sku"} }},
	{"hot key, denied", scarce, func(int64) []string { return []string{"sku"} }},
	{"hot key, 1000/s:100", busy, func(int64) []string { return []string{"sku"} }},
}

// limiters are a table for many callers and one for a lone one, who has nobody to
// share a call with; straight to Redis, and with a way of 1 ms.
func limiters() (tables []table) {
	for _, callers := range []int{256, 1} {
		for _, latency := range []time.Duration{0, time.Millisecond} {
			t := table{title: fmt.Sprintf("limiter, callers: %d, latency: %v", callers, latency), columns: []string{"req/s%.0f"}}
			for _, c := range limiterCases {
				if callers == 1 && c.limit != far {
					continue
				}
				for _, k := range limiterKinds {
					t.rows = append(t.rows, row{[]string{c.name, k.name}, func(ctx context.Context, lab *lab) ([]float64, error) {
						requests, _, took, err := runLimiter(ctx, lab, k, c, callers, latency)
						return []float64{float64(requests) / took.Seconds()}, err
					}, k.peer})
				}
			}
			tables = append(tables, t)
		}
	}
	return tables
}

// runLimiter has so many callers, of two processes if they are several, ask one after
// the other. An error of one ends it.
func runLimiter(ctx context.Context, lab *lab, k limiterKind, c limiterCase, callers int, latency time.Duration) (requests, allowed int64, took time.Duration, err error) {
	addr := lab.redis.Addr()
	if latency > 0 {
		w, err := openWay(addr, latency)
		if err != nil {
			return 0, 0, 0, err
		}
		defer w.Close()
		addr = w.Addr()
	}
	var ask []admission
	for range min(callers, 2) {
		client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: k.pool})
		defer func() { _ = client.Close() }()
		ask = append(ask, k.open(client))
		if _, err := ask[len(ask)-1](ctx, []string{"warm"}, far); err != nil { // connected, and the script known
			return 0, 0, 0, err
		}
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	var asked, passed atomic.Int64
	begin := time.Now()
	for n := range callers {
		all.Go(func() {
			for time.Since(begin) < lab.each && ctx.Err() == nil {
				yes, err := ask[n%len(ask)](ctx, c.keys(asked.Add(1)), c.limit)
				if err != nil {
					fail(err)
				} else if yes {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	return asked.Load(), passed.Load(), time.Since(begin), context.Cause(ctx)
}
