package httplimit_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flashsale/ratelimit"
	"flashsale/ratelimit/admission"
	"flashsale/ratelimit/httplimit"
	"flashsale/ratelimit/limit"
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

func must(text string) limit.Limit {
	l, err := limit.Parse(text)
	if err != nil {
		panic(err)
	}
	return l
}

func ExampleMiddleware() {
	client, stop := startRedis()
	defer stop()
	control := admission.New(ratelimit.New(client, ratelimit.Config{}), nil)
	perIP := must("5/s:1")

	limited := httplimit.Middleware(control, func(r *http.Request) (cost int, buckets []ratelimit.Bucket) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		return 1, []ratelimit.Bucket{httplimit.IP(host, perIP)}
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
