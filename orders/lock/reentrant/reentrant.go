// Package reentrant implements reentrant locks in Redis: an owner may acquire a lock that
// it already holds.
package reentrant

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

var (
	//go:embed keep.lua
	keepSource string
	//go:embed enter.lua
	enterSource string
	//go:embed reenter.lua
	reenterSource string
	//go:embed leave.lua
	leaveSource string
)

// A Client acquires locks for one owner. Each acquisition returns its own Lock, and the key
// is free after the last of them is released. Other owners poll by Config.Retry and are
// served in no particular order.
//
// The owner is identified only by its name: two goroutines or processes with the same
// name do not exclude each other. A key must not be shared with a lock.Client or another
// kind of lock.
type Client struct {
	*lease.Acquirer
	leases *lease.Leases
	store  *onredis.Store
}

var _ lease.Locker = (*Client)(nil)

// New returns a Client for owner. The default of Config.Retry is lease.Backoff from 5 ms to
// 100 ms. New panics if cfg is invalid.
func New(rdb redis.UniversalClient, owner string, cfg lease.Config) *Client {
	if cfg.Retry == nil {
		cfg.Retry = lease.Backoff(5*time.Millisecond, 100*time.Millisecond)
	}
	s := onredis.New(rdb, cfg)
	s.Extra, s.Keys = owner, func(key, _ string) []string { return []string{key} }
	s.Scripts = onredis.Scripts{
		Acquire: redis.NewScript(keepSource + enterSource), Renew: redis.NewScript(keepSource + reenterSource), Release: redis.NewScript(leaveSource),
	}
	c := &Client{leases: lease.NewLeases(s, cfg), store: s}
	c.Acquirer = lease.NewAcquirer(c.leases, func(call *lease.Call) (*lease.Lock, error) { return call.Poll(c.attempt) })
	return c
}

func (c *Client) attempt(call *lease.Call) (*lease.Lock, error) {
	l, _, err := c.store.Take(call, onredis.NewToken(call.Lease))
	return l, err
}

// Remaining implements Locker.
func (c *Client) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	return c.store.Remaining(ctx, keys...)
}
