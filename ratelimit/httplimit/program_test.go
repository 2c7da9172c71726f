package httplimit_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flashsale/ratelimit"
	"flashsale/ratelimit/admission"
	"flashsale/ratelimit/httplimit"
	"flashsale/ratelimit/limit"
)

func Example_program() {
	server, err := miniredis.Run() // a Redis in this process, for the example
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	defer client.Close()
	control := admission.New(ratelimit.New(client, ratelimit.Config{}), nil)

	perIP, _ := limit.New(1, time.Hour, 2) // as text: 1/h:2
	limited := httplimit.Middleware(control, func(r *http.Request) (cost int, buckets []ratelimit.Bucket) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		return 1, httplimit.AddressBuckets(host, perIP)
	}, nil) // nil: the middleware writes the refusals
	site := httptest.NewServer(limited(http.NotFoundHandler())) // or http.ListenAndServe
	defer site.Close()
	for range 3 {
		answer, err := http.Get(site.URL)
		if err != nil {
			panic(err)
		}
		_ = answer.Body.Close()
		fmt.Println(answer.Status, answer.Header.Get("RateLimit-Policy"))
	}
	// Output:
	// 404 Not Found "ip";q=2;w=7200
	// 404 Not Found "ip";q=2;w=7200
	// 429 Too Many Requests "ip";q=2;w=7200
}
