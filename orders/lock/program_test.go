package lock_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock"
	"flashsale/orders/lock/fence"
)

func Example_program() {
	server, err := miniredis.Run() // a Redis in this process, for the example
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	defer rdb.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, tokens := lock.New(rdb, lock.Config{}), fence.NewRedis(rdb)
	go func() { _ = client.Run(ctx) }() // renews leases and receives messages

	newest := int64(0) // the resource accepts no token that is smaller than newest
	accepts := func(token int64) bool { newest = max(newest, token); return token == newest }
	for range 2 {
		l, token, err := fence.Acquire(ctx, client, tokens, "lock:{sku}")
		if err != nil {
			panic(err)
		}
		fmt.Println("write with token", token, "accepted:", accepts(token))
		fmt.Println("released:", l.Release(ctx))
	}
	fmt.Println("late write with token 1 accepted:", accepts(1))
	// Output:
	// write with token 1 accepted: true
	// released: <nil>
	// write with token 2 accepted: true
	// released: <nil>
	// late write with token 1 accepted: false
}
