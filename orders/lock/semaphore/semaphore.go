// Package semaphore implements semaphores in Redis: a key has a fixed number of places, and
// each place has at most one holder.
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

// A Client acquires places in one Redis. A place is a lease.Lock: its lease is renewed, and
// its context ends before the server can grant the place to another caller. Waiters poll by
// Config.Retry and are served in order of arrival.
//
// All clients of a key must use the same number of places. A key must not be shared with a
// lock.Client.
type Client struct {
	*lease.Acquirer
	leases *lease.Leases
	store  *onredis.Store
}

var _ lease.Locker = (*Client)(nil)

// New returns a Client whose keys have the given number of places each. By default, waiters
// poll every 10 to 20 ms. New panics if cfg is invalid or places is less than 1.
func New(rdb redis.UniversalClient, places int, cfg lease.Config) *Client {
	if places < 1 {
		panic("semaphore: no places")
	}
	if cfg.Retry == nil {
		cfg.Retry = lease.Backoff(20*time.Millisecond, 20*time.Millisecond)
	}
	s := onredis.New(rdb, cfg)
	s.Extra, s.Keys = places, func(key, _ string) []string { return keysOf(key) }
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
		_, _ = c.store.Erase(call.Ctx, call.Key, token) // if this fails, the queue entry expires after a lease
	}
	return l, err
}

// attempt asks for a place. If queued is 1 and no place is free, it joins the wait queue.
func (c *Client) attempt(call *lease.Call, token string, queued int) (*lease.Lock, error) {
	if err := onredis.CheckKey(call.Key); err != nil {
		return nil, err
	}
	l, _, err := c.store.Take(call, token, queued)
	return l, err
}

// Remaining implements lease.Locker. It returns for how long each key has no free place.
func (c *Client) Remaining(ctx context.Context, names ...string) ([]time.Duration, error) {
	remaining := make([]time.Duration, len(names))
	for i, key := range names {
		ms, err := left.Run(ctx, c.store.Asking, keysOf(key), c.store.Extra).Int64()
		if err != nil {
			return nil, fmt.Errorf("read the remaining time of %q: %w", key, err)
		}
		if remaining[i] = time.Duration(ms) * time.Millisecond; ms < 0 {
			remaining[i] = lease.Forever
		}
	}
	return remaining, nil
}

// Raise implements fence.Issuer. Each token is greater than all earlier tokens of the key,
// whatever their places. Like fence.Redis, it may repeat a token after a failover.
func (c *Client) Raise(ctx context.Context, l *lease.Lock) (int64, error) {
	n, err := raise.Run(ctx, c.store.Asking, keysOf(l.Key()), l.Token()).Int64()
	if err == nil && n == 0 {
		err = lease.ErrExpired
	}
	if err != nil {
		return 0, fmt.Errorf("raise the fence of %q: %w", l.Key(), err)
	}
	return n, nil
}

// keysOf returns the keys of a semaphore, which share one slot of a Redis Cluster.
func keysOf(key string) []string {
	return append(onredis.Keys(key), onredis.Tagged(key)+":fence")
}
