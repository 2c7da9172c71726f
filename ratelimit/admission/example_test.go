package admission_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flashsale/ratelimit"
	"flashsale/ratelimit/admission"
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

// The error of Admit names the bucket that refused a request.
func ExampleControl_Admit() {
	client, stop := startRedis()
	defer stop()
	control := admission.New(ratelimit.New(client, ratelimit.Config{}), func(d admission.Decision) {
		fmt.Printf("counted %s %q\n", d.Outcome, d.Bucket)
	})
	ann := ratelimit.Bucket{Name: "buyer", ID: "ann", Limit: must("1/m:1")}
	for range 2 {
		_, err := control.Admit(context.Background(), 1, ann)
		var limited *admission.LimitedError
		if errors.As(err, &limited) {
			fmt.Println(err)
		}
	}
	// Output:
	// counted allowed ""
	// counted denied "buyer"
	// ratelimit: limited by buyer (1/m:1), next in 1m0s
}

// While Redis is down, payments pass, and each node counts orders by itself. A new limit
// for reads only reports what it would refuse.
func ExampleControl_With() {
	client, stop := startRedis()
	control := admission.New(ratelimit.New(client, ratelimit.Config{}), func(d admission.Decision) {
		fmt.Println(d.Route, d.Outcome, d.Shadow)
	})
	place := control.With(admission.Rules{Route: "place", WhenAway: admission.Local})
	pay := control.With(admission.Rules{Route: "pay", WhenAway: admission.Open})
	read := control.With(admission.Rules{Route: "read", Shadow: true})
	stop() // Redis is down

	ann := ratelimit.Bucket{Name: "buyer", ID: "ann", Limit: must("1/m:1")}
	for _, route := range []*admission.Control{place, place, pay, read} {
		var limited *admission.LimitedError
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
