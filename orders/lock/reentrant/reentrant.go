// Package reentrant takes locks for owners who may take again what they hold.
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

// A Client takes locks for one owner, who may take again what they hold: each time
// is a Lock of its own, and the key is free when the last is released. Others wait
// by asking (Config.Retry), in no order.
//
// Whoever knows the owner's name is the owner: two goroutines, or two processes,
// under one name are not kept apart. Its keys are not those of a lock.Client: one
// key must be used by one kind of lock only.
type Client struct {
	*lease.Acquirer
	leases *lease.Leases
	store  *onredis.Store
}

var _ lease.Locker = (*Client)(nil)

// New returns the locks of one owner. Without Config.Retry it asks by Backoff from
// 5 ms to 100 ms. It panics on a Config that Validate refuses.
func New(rdb redis.UniversalClient, owner string, cfg lease.Config) *Client {
	if cfg.Retry == nil {
		cfg.Retry = lease.Backoff(5*time.Millisecond, 100*time.Millisecond)
	}
	s := onredis.New(rdb, cfg)
	s.Own, s.Keys = owner, func(key, _ string) []string { return []string{key} }
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
