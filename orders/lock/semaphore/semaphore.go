// Package semaphore lets so many holders have a key at a time, and no more.
package semaphore

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

var (
	//go:embed places.lua
	placesSource string
	//go:embed take.lua
	takeSource string
	//go:embed renew.lua
	renewSource string
	//go:embed leave.lua
	leaveSource string
	//go:embed left.lua
	leftSource string
	//go:embed fence.lua
	fenceSource string

	left, raise = redis.NewScript(placesSource + leftSource), redis.NewScript(placesSource + fenceSource)
)

// A Client takes places in one Redis. Each is a lease.Lock: a lease that is renewed,
// with a context that ends before the server could give the place to another. Who
// waits asks by Config.Retry, and is served in order of arrival.
//
// All clients of a key have to agree on how many places it has. Its keys are not
// those of a lock.Client.
type Client struct {
	*lease.Acquirer
	leases *lease.Leases
	store  *onredis.Store
}

var _ lease.Locker = (*Client)(nil)

// New returns a Client of keys with so many places each. Without Config.Retry it
// asks every 10 to 20 ms. It panics on a Config that Validate refuses, and without
// places.
func New(rdb redis.UniversalClient, places int, cfg lease.Config) *Client {
	if places < 1 {
		panic("semaphore: no places")
	}
	if cfg.Retry == nil {
		cfg.Retry = lease.Backoff(20*time.Millisecond, 20*time.Millisecond)
	}
	s := onredis.New(rdb, cfg)
	s.Own, s.Keys = places, func(key, _ string) []string { return keysOf(key) }
	s.Scripts = onredis.Scripts{
		Acquire: redis.NewScript(placesSource + takeSource), Renew: redis.NewScript(placesSource + renewSource), Release: redis.NewScript(placesSource + leaveSource),
	}
	c := &Client{leases: lease.NewLeases(s, cfg), store: s}
	c.Acquirer = lease.NewAcquirer(c.leases, c.take)
	return c
}

func (c *Client) take(call *lease.Call) (*lease.Lock, error) {
	token := onredis.NewToken(call.Lease)
	if call.Waiting == nil {
		return c.attempt(call, token, 0)
	}
	l, err := call.Poll(func(*lease.Call) (*lease.Lock, error) { return c.attempt(call, token, 1) })
	if err != nil {
		_, _ = c.store.Erase(call.Ctx, call.Key, token) // or its place in line ends after a lease
	}
	return l, err
}

// attempt asks for a place, in line or not.
func (c *Client) attempt(call *lease.Call, token string, inLine int) (*lease.Lock, error) {
	if err := onredis.CheckKey(call.Key); err != nil {
		return nil, err
	}
	l, _, err := c.store.Take(call, token, inLine)
	return l, err
}

// Remaining is the Locker's: how long each key has no free place.
func (c *Client) Remaining(ctx context.Context, names ...string) ([]time.Duration, error) {
	remaining := make([]time.Duration, len(names))
	for i, key := range names {
		ms, err := left.Run(ctx, c.store.Asking, keysOf(key), c.store.Own).Int64()
		if err != nil {
			return nil, fmt.Errorf("remaining time of %q: %w", key, err)
		}
		if remaining[i] = time.Duration(ms) * time.Millisecond; ms < 0 {
			remaining[i] = lease.Forever
		}
	}
	return remaining, nil
}

// Raise issues a fencing token to who has a place: greater than all before, of
// whichever place. See fence.Redis for its limits.
func (c *Client) Raise(ctx context.Context, l *lease.Lock) (int64, error) {
	n, err := raise.Run(ctx, c.store.Asking, keysOf(l.Key()), l.Token()).Int64()
	if err == nil && n == 0 {
		err = lease.ErrExpired
	}
	if err != nil {
		return 0, fmt.Errorf("raise fence of %q: %w", l.Key(), err)
	}
	return n, nil
}

// keysOf share a slot of a Redis Cluster.
func keysOf(key string) []string {
	return append(onredis.Keys(key), onredis.Tagged(key)+":fence")
}
