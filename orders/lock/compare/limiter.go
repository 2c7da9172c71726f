package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"flashsale/ratelimit"
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
}

var limiterKinds = []limiterKind{
	{"redis_rate", 0, openRedisRate},
	{"redis_rate, 256 connections", 256, openRedisRate},
	{"ours", 0, func(c redis.UniversalClient) admission { return openOurs(c, 0) }},
	{"ours, asking each time", 0, func(c redis.UniversalClient) admission { return openOurs(c, -1) }},
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
		limit, err := ratelimit.NewLimit(int64(b.rate), b.per, int64(b.burst))
		if err != nil {
			return false, err
		}
		buckets := make([]ratelimit.Bucket, len(keys))
		for i, key := range keys {
			buckets[i] = ratelimit.Bucket{Name: "limit" + strconv.Itoa(i), ID: key, Limit: limit}
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

const spreadOver = 4096

func spreadKey(n int64) string { return "buyer-" + strconv.FormatInt(n%spreadOver, 10) }

var limiterCases = []limiterCase{
	{"hot key, allowed", far, func(int64) []string { return []string{"sku"} }},
	{"4096 keys, allowed", far, func(n int64) []string { return []string{spreadKey(n)} }},
	{"three limits, allowed", far, func(n int64) []string { return []string{spreadKey(n), "ip", "sku"} }},
	{"hot key, denied", scarce, func(int64) []string { return []string{"sku"} }},
	{"4096 keys, denied", scarce, func(n int64) []string { return []string{spreadKey(n)} }},
	{"hot key, 1000/s:100", busy, func(int64) []string { return []string{"sku"} }},
}

// LimiterTraffic is how much of it there is.
type LimiterTraffic struct {
	Processes int // each with a client of its own
	Callers   int // of each process, asking one after the other
	For       time.Duration
	Latency   time.Duration // that a way to Redis adds; 0 is straight to it
}

func (t LimiterTraffic) String() string {
	who, where := fmt.Sprintf("%d processes with %d callers each", t.Processes, t.Callers), "straight to Redis"
	if t.Processes*t.Callers == 1 {
		who = "one caller"
	}
	if t.Latency > 0 {
		where = fmt.Sprintf("Redis is %v away", t.Latency)
	}
	return who + ", " + where
}

// limiterFigures are what one run came to.
type limiterFigures struct {
	Requests, Allowed, Errors int64
	Took                      time.Duration
	RedisCPU                  time.Duration
	Commands                  int64 // that reached Redis
}

func (f limiterFigures) perSecond() float64 { return float64(f.Requests) / f.Took.Seconds() }

// ofBound is how much of what the limit allows was admitted.
func (f limiterFigures) ofBound(b limiterBound) float64 {
	due := float64(b.burst) + float64(b.rate)*f.Took.Seconds()/b.per.Seconds()
	return float64(f.Allowed) / due
}

// runLimiter measures one kind under one traffic on an emptied Redis.
func runLimiter(ctx context.Context, addr string, k limiterKind, c limiterCase, traffic LimiterTraffic) (f limiterFigures, err error) {
	observer := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = observer.Close() }()
	if err := observer.FlushAll(ctx).Err(); err != nil {
		return f, err
	}
	var ask []admission
	for range traffic.Processes {
		client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: k.pool})
		defer func() { _ = client.Close() }()
		ask = append(ask, k.open(client))
		// Connected, and the script known.
		if _, err := ask[len(ask)-1](ctx, []string{"warm"}, far); err != nil {
			return f, fmt.Errorf("%s: %w", k.name, err)
		}
	}
	before, err := redisSpent(ctx, observer)
	if err != nil {
		return f, err
	}
	var requests, allowed, failed atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for n := range traffic.Processes * traffic.Callers {
		wg.Go(func() {
			for time.Since(begin) < traffic.For {
				yes, err := ask[n%traffic.Processes](ctx, c.keys(requests.Add(1)), c.limit)
				switch {
				case err != nil:
					failed.Add(1)
				case yes:
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	f = limiterFigures{Requests: requests.Load(), Allowed: allowed.Load(), Errors: failed.Load(), Took: time.Since(begin)}
	after, err := redisSpent(ctx, observer)
	f.RedisCPU, f.Commands = after.cpu-before.cpu, after.commands-before.commands
	return f, err
}

// redisUsage is what Redis has spent so far.
type redisUsage struct {
	cpu      time.Duration
	commands int64
}

func redisSpent(ctx context.Context, client *redis.Client) (redisUsage, error) {
	info, err := client.Info(ctx, "cpu", "stats").Result()
	if err != nil {
		return redisUsage{}, err
	}
	var u redisUsage
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_cpu_user", "used_cpu_sys":
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return redisUsage{}, err
			}
			u.cpu += time.Duration(seconds * float64(time.Second))
		case "total_commands_processed":
			if u.commands, err = strconv.ParseInt(value, 10, 64); err != nil {
				return redisUsage{}, err
			}
		}
	}
	return u, nil
}
