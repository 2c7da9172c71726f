package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock"
	"flashsale/orders/lock/election"
	"flashsale/orders/lock/lease"
	"flashsale/orders/lock/redlock"
	"flashsale/orders/lock/reentrant"
)

// open starts a Redis in this process and connects to it.
func open() (server *miniredis.Miniredis, rdb *redis.Client, closeBoth func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, DialerRetries: 1})
	return server, rdb, func() { _ = rdb.Close(); server.Close() }
}

// start returns a Client on its own Redis. The Client runs until stop is called.
func start(cfg lock.Config) (client *lock.Client, stop func()) {
	_, rdb, closeBoth := open()
	ctx, cancel := context.WithCancel(context.Background())
	client = lock.New(rdb, cfg)
	stopped := make(chan error)
	go func() { stopped <- client.Run(ctx) }()
	return client, func() {
		cancel()
		if err := <-stopped; err != nil {
			panic(err)
		}
		closeBoth()
	}
}

// The context limits the wait. Config.MaxHold limits the time for which the lock is held.
func ExampleClient_Acquire() {
	client, stop := start(lock.Config{Lease: 5 * time.Second, MaxHold: time.Minute})
	defer stop()
	held, err := client.TryAcquire(context.Background(), "lock:{sku}")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_, err = client.Acquire(ctx, "lock:{sku}")
	fmt.Println(errors.Is(err, context.DeadlineExceeded), err)
	fmt.Println(held.Release(context.Background()))
	// Output:
	// true acquire "lock:{sku}": lock: held by someone else: context deadline exceeded
	// <nil>
}

// All nodes schedule the same task, and one of them runs it.
func Example_once() {
	client, stop := start(lock.Config{})
	defer stop()
	ctx := context.Background()
	sweep := func(context.Context) error {
		fmt.Println("expired orders swept")
		// Another node starts the task while this node is running it.
		ran, err := election.Once(ctx, client, "lock:{sweep}", func(context.Context) error { panic("two sweepers") })
		fmt.Println("the other one swept:", ran, err)
		return nil
	}
	ran, err := election.Once(ctx, client, "lock:{sweep}", sweep)
	fmt.Println("this one swept:", ran, err)
	// Output:
	// expired orders swept
	// the other one swept: false <nil>
	// this one swept: true <nil>
}

// One node is the leader and sweeps periodically, until it loses the lock or its context
// ends.
func Example_lead() {
	client, stop := start(lock.Config{})
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	sweeps := 0
	sweeper := func(ctx context.Context) error {
		every := time.NewTicker(time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil // the lock is lost, or the program stops
			case <-every.C:
				if sweeps++; sweeps == 3 {
					cancel()
				}
			}
		}
	}
	err := election.Lead(ctx, client, "lock:{sweep}", sweeper, func(err error) { fmt.Println(err) })
	fmt.Println("swept three times or more:", sweeps >= 3, err)
	// Output: swept three times or more: true <nil>
}

// An owner acquires its lock a second time. Another owner can acquire it after both releases.
func Example_reentrant() {
	_, rdb, closeBoth := open()
	defer closeBoth()
	ctx := context.Background()
	ann, bob := reentrant.New(rdb, "ann", lease.Config{}), reentrant.New(rdb, "bob", lease.Config{})

	outer, _ := ann.TryAcquire(ctx, "lock:{sku}")
	inner, err := ann.TryAcquire(ctx, "lock:{sku}")
	fmt.Println("ann's second time:", err)
	fmt.Println(inner.Release(ctx))
	_, err = bob.TryAcquire(ctx, "lock:{sku}")
	fmt.Println("bob:", err)
	fmt.Println(outer.Release(ctx))
	_, err = bob.TryAcquire(ctx, "lock:{sku}")
	fmt.Println("bob:", err)
	// Output:
	// ann's second time: <nil>
	// <nil>
	// bob: acquire "lock:{sku}": lock: held by someone else
	// <nil>
	// bob: <nil>
}

// A Retry is a function of the number of the retry. This one stops after three retries.
func Example_retry() {
	backoff := lease.Backoff(time.Millisecond, 10*time.Millisecond)
	client, stop := start(lock.Config{Retry: func(n int) (time.Duration, bool) {
		wait, _ := backoff(n)
		return wait, n <= 3
	}})
	defer stop()
	ctx := context.Background()
	held, err := client.TryAcquire(ctx, "lock:{sku}")
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		_, err = client.Acquire(ctx, "lock:{sku}")
		fmt.Println(err)
	}
	fmt.Println(held.Release(ctx))
	// Output:
	// acquire "lock:{sku}": lock: held by someone else
	// acquire "lock:{sku}": lock: held by someone else
	// <nil>
}

// A lock on three independent masters works while one of them is down.
func Example_redlock() {
	var servers []*miniredis.Miniredis
	var masters []redis.UniversalClient
	for range 3 {
		server, rdb, closeBoth := open()
		defer closeBoth()
		servers, masters = append(servers, server), append(masters, rdb)
	}
	ctx, config := context.Background(), lease.Config{Lease: time.Hour, Timeout: time.Minute}
	ann, bob := redlock.New(masters, config), redlock.New(masters, config)

	servers[0].SetError("down")
	held, err := ann.TryAcquire(ctx, "lock:{sku}")
	fmt.Println("one is down, ann:", err)
	_, err = bob.TryAcquire(ctx, "lock:{sku}")
	fmt.Println("one is down, bob:", err)
	fmt.Println(held.Release(ctx))

	servers[1].SetError("down")
	_, err = bob.TryAcquire(ctx, "lock:{sku}")
	fmt.Println("two are down, bob: unknown outcome:", errors.Is(err, lease.ErrUnknown))
	// Output:
	// one is down, ann: <nil>
	// one is down, bob: acquire "lock:{sku}": lock: held by someone else
	// <nil>
	// two are down, bob: unknown outcome: true
}

// Hooks report the events of a lock, for metrics and traces.
func Example_hooks() {
	ctx, giveUp := context.WithCancel(context.Background())
	client, stop := start(lock.Config{Hooks: lease.Hooks{
		Waiting: func(_ context.Context, key string) {
			fmt.Println("waiting for", key)
			giveUp()
		},
		Acquired: func(_ context.Context, key string, after time.Duration) {
			fmt.Println("acquired", key, "at once:", after < time.Minute)
		},
		Lost: func(_ context.Context, key string, cause error) {
			fmt.Println("lost", key, "because of", cause)
		},
		Released: func(_ context.Context, key string, _ time.Duration, err error) {
			fmt.Println("released", key, err)
		},
	}})
	defer stop()

	held, err := client.Acquire(ctx, "lock:{sku}")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Acquire(ctx, "lock:{sku}")
	fmt.Println(err)
	fmt.Println(held.Release(context.Background()))
	// Output:
	// acquired lock:{sku} at once: true
	// waiting for lock:{sku}
	// acquire "lock:{sku}": lock: held by someone else: context canceled
	// released lock:{sku} <nil>
	// <nil>
}
