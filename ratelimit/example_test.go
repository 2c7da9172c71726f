package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flashsale/ratelimit"
)

// startRedis is an embedded Redis, so that the examples run anywhere. Its
// clock stands still.
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

func must(text string) ratelimit.Limit {
	l, err := ratelimit.ParseLimit(text)
	if err != nil {
		panic(err)
	}
	return l
}

// A request has to pass its buyer's bucket and its SKU's. The second buyer is
// refused by the SKU's, and keeps all of his own tokens.
func ExampleLimiter_Allow() {
	client, stop := startRedis()
	defer stop()
	limiter := ratelimit.New(client, ratelimit.Config{})

	perBuyer, perSKU := must("5/s:10"), must("0.5/s:3")
	for _, buyer := range []string{"ann", "bob"} {
		r, err := limiter.Allow(context.Background(), 2, ratelimit.Buyer(buyer, perBuyer), ratelimit.SKU("shoe", perSKU))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: allowed %t by %s, %d left, retry after %v\n", buyer, r.Allowed, r.Bucket, r.Remaining, r.RetryAfter)
	}
	r, err := limiter.Allow(context.Background(), 10, ratelimit.Buyer("bob", perBuyer))
	fmt.Println("bob's ten:", r.Allowed, err)
	r, err = limiter.Allow(context.Background(), 4, ratelimit.SKU("shoe", perSKU))
	fmt.Println("more than the burst: never", r.Never, err)
	// Output:
	// ann: allowed true by sku, 1 left, retry after 0s
	// bob: allowed false by sku, 1 left, retry after 2s
	// bob's ten: true <nil>
	// more than the burst: never true <nil>
}

// A handler that asks for itself learns by the error what refused it.
func ExampleLimiter_Admit() {
	client, stop := startRedis()
	defer stop()
	limiter := ratelimit.New(client, ratelimit.Config{
		OnDecision: func(d ratelimit.Decision) { fmt.Printf("counted %s %q\n", d.Outcome, d.Bucket) },
	})
	for range 2 {
		_, err := limiter.Admit(context.Background(), 1, ratelimit.Buyer("ann", must("1/m:1")))
		var limited *ratelimit.LimitedError
		if errors.As(err, &limited) {
			fmt.Println(err)
		}
	}
	// Output:
	// counted allowed ""
	// counted denied "buyer"
	// ratelimit: limited by buyer (1/m:1), next in 1m0s
}

// Paying is never kept from a buyer because Redis is away; placing is counted
// by each node alone, and a new limit on reading only shows what it would do.
func ExampleLimiter_With() {
	client, stop := startRedis()
	limiter := ratelimit.New(client, ratelimit.Config{
		OnDecision: func(d ratelimit.Decision) { fmt.Println(d.Route, d.Outcome, d.Shadow) },
	})
	place := limiter.With(ratelimit.Rules{Route: "place", WhenAway: ratelimit.Local})
	pay := limiter.With(ratelimit.Rules{Route: "pay", WhenAway: ratelimit.Open})
	read := limiter.With(ratelimit.Rules{Route: "read", Shadow: true})
	stop() // Redis is away

	ann := ratelimit.Buyer("ann", must("1/m:1"))
	for _, route := range []*ratelimit.Limiter{place, place, pay, read} {
		var limited *ratelimit.LimitedError
		if _, err := route.Admit(context.Background(), 1, ann); errors.As(err, &limited) {
			fmt.Println("  refused by", limited.Result.Bucket)
		}
	}
	// Output:
	// place local_allowed false
	// place local_denied false
	//   refused by buyer
	// pay failed_open false
	// read failed_open true
}

// What must not be asked more than a hundred times a second, such as a payment
// provider, is asked at that pace, and a queue of more than 15 ms is refused.
func ExampleLimiter_Wait() {
	client, stop := startRedis()
	defer stop()
	limiter := ratelimit.New(client, ratelimit.Config{})
	for range 3 {
		r, err := limiter.Wait(context.Background(), 1, 15*time.Millisecond, ratelimit.Route("provider", must("100/s:1")))
		fmt.Println(r.Waited, err)
	}
	// Output:
	// 0s <nil>
	// 10ms <nil>
	// 0s ratelimit: limited by route (100/s:1), next in 5ms
}

// What a request turns out not to need goes back, an operator adds to a bucket, or
// fills it.
func ExampleLimiter_GiveBack() {
	client, stop := startRedis()
	defer stop()
	limiter, ctx := ratelimit.New(client, ratelimit.Config{Prefix: "shop"}), context.Background()
	ann := ratelimit.Buyer("ann", must("1/h:10"))
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

func ExampleMiddleware() {
	client, stop := startRedis()
	defer stop()
	limiter := ratelimit.New(client, ratelimit.Config{})
	perIP := must("5/s:1")

	limited := ratelimit.Middleware(limiter, func(r *http.Request) (cost int, buckets []ratelimit.Bucket) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		return 1, []ratelimit.Bucket{ratelimit.IP(host, perIP)}
	}, nil)
	handler := limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))

	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Body)))
		for _, name := range []string{"RateLimit-Policy", "RateLimit", "Retry-After"} {
			if value := w.Header().Get(name); value != "" {
				fmt.Printf("  %s: %s\n", name, value)
			}
		}
	}
	// Output:
	// 204
	//   RateLimit-Policy: "ip";q=1;w=1
	//   RateLimit: "ip";r=0
	// 429 {"type":"about:blank","title":"Too Many Requests","status":429,"code":"rate_limited"}
	//   RateLimit-Policy: "ip";q=1;w=1
	//   RateLimit: "ip";r=0;t=1
	//   Retry-After: 1
}
