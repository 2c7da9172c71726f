package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flashsale/ratelimit"
	"flashsale/ratelimit/limit"
)

// startRedis starts an embedded Redis, so the examples run anywhere. Its clock stands
// still.
func startRedis() (client *redis.Client, stop func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	server.SetTime(time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC))
	client = redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	return client, func() {
		_ = client.Close()
		server.Close()
	}
}

func must(text string) limit.Limit {
	l, err := limit.Parse(text)
	if err != nil {
		panic(err)
	}
	return l
}

// Each request takes from the buckets of its buyer and its SKU. The second buyer is
// refused by the SKU's bucket and keeps all tokens of the buyer's own.
func ExampleLimiter_Allow() {
	client, stop := startRedis()
	defer stop()
	limiter := ratelimit.New(client, ratelimit.Config{})

	shoe := ratelimit.Bucket{Name: "sku", ID: "shoe", Limit: must("0.5/s:3")}
	for _, name := range []string{"ann", "bob"} {
		buyer := ratelimit.Bucket{Name: "buyer", ID: name, Limit: must("5/s:10")}
		r, err := limiter.Allow(context.Background(), 2, buyer, shoe)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: allowed %t by %s, %d left, retry after %v\n", name, r.Allowed, r.Bucket, r.Remaining, r.RetryAfter)
	}
	bob := ratelimit.Bucket{Name: "buyer", ID: "bob", Limit: must("5/s:10")}
	r, err := limiter.Allow(context.Background(), 10, bob)
	fmt.Println("bob's ten:", r.Allowed, err)
	r, err = limiter.Allow(context.Background(), 4, shoe)
	fmt.Println("more than the burst: never", r.Never, err)
	// Output:
	// ann: allowed true by sku, 1 left, retry after 0s
	// bob: allowed false by sku, 1 left, retry after 2s
	// bob's ten: true <nil>
	// more than the burst: never true <nil>
}

// A payment provider accepts a hundred requests a second. Requests are sent at this rate, and
// requests that would wait more than 15 ms are refused.
func ExampleLimiter_Wait() {
	client, stop := startRedis()
	defer stop()
	limiter := ratelimit.New(client, ratelimit.Config{})
	provider := ratelimit.Bucket{Name: "route", ID: "provider", Limit: must("100/s:1")}
	for range 3 {
		r, err := limiter.Wait(context.Background(), 1, 15*time.Millisecond, provider)
		fmt.Println(r.Allowed, "after", r.Waited, "retry after", r.RetryAfter, err)
	}
	// Output:
	// true after 0s retry after 0s <nil>
	// true after 10ms retry after 0s <nil>
	// false after 0s retry after 5ms <nil>
}

// A request returns unused tokens. An operator adds tokens to a bucket, and fills it.
func ExampleLimiter_GiveBack() {
	client, stop := startRedis()
	defer stop()
	limiter, ctx := ratelimit.New(client, ratelimit.Config{Prefix: "shop"}), context.Background()
	ann := ratelimit.Bucket{Name: "buyer", ID: "ann", Limit: must("1/h:10")}
	left := func(after string, err error) {
		r, peeked := limiter.Peek(ctx, ann)
		fmt.Println(after, r.Remaining, errors.Join(err, peeked))
	}
	r, err := limiter.Allow(ctx, 8, ann)
	left("taken:", err)
	left("given back:", limiter.GiveBack(ctx, r, 5, ann))
	left("granted:", limiter.Grant(ctx, 2, ann))
	left("filled:", limiter.Reset(ctx, ann))
	// Output:
	// taken: 2 <nil>
	// given back: 7 <nil>
	// granted: 9 <nil>
	// filled: 10 <nil>
}
