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
	leases  *lease.Leases
	entries *entries
	owner   string
}

var _ lease.Locker = (*Client)(nil)

// New returns the locks of one owner. Without Config.Retry it asks by Backoff from
// 5 ms to 100 ms. It panics on a Config that Validate refuses.
func New(rdb redis.UniversalClient, owner string, cfg lease.Config) *Client {
	if cfg.Retry == nil {
		cfg.Retry = lease.Backoff(5*time.Millisecond, 100*time.Millisecond)
	}
	es := &entries{
		Store: onredis.New(rdb, cfg),
		enter: redis.NewScript(keepSource + enterSource), reenter: redis.NewScript(keepSource + reenterSource), leave: redis.NewScript(leaveSource),
	}
	c := &Client{leases: lease.NewLeases(es, cfg), entries: es, owner: owner}
	c.Acquirer = lease.NewAcquirer(c.leases, func(call *lease.Call) (*lease.Lock, error) { return call.Poll(c.attempt) })
	return c
}

// Remaining is the Locker's.
func (c *Client) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	return c.entries.Remaining(ctx, keys...)
}

func (c *Client) attempt(call *lease.Call) (*lease.Lock, error) {
	ctx, key := call.Ctx, call.Key
	es, entry, sent := c.entries, onredis.NewToken(call.Lease), time.Now()
	left, err := es.enter.Run(ctx, es.Asking, []string{key}, entry, c.owner, call.Lease.Milliseconds()).Int64()
	if err == nil && left != 0 {
		return nil, lease.ErrHeld
	}
	if err == nil {
		var l *lease.Lock
		if l, err = call.Hold(entry, sent); err == nil {
			return l, nil
		}
	}
	return nil, onredis.TakeBack(ctx, err, func() error { _, err := es.erase(ctx, key, entry); return err })
}

// entries are the locks as Redis has them: a hash of owner and entries by key.
type entries struct {
	*onredis.Store
	enter, reenter, leave *redis.Script
}

// Renew is lease.Store's. Owners are few and so are their locks: one by one.
func (es *entries) Renew(ctx context.Context, locks []*lease.Lock) []error {
	errs := make([]error, len(locks))
	for i, l := range locks {
		reply := es.reenter.Run(ctx, es.RDB, []string{l.Key()}, l.Token(), l.Lease().Milliseconds())
		errs[i] = onredis.Verdict(reply.Int64())
	}
	return errs
}

// Release is lease.Store's.
func (es *entries) Release(ctx context.Context, l *lease.Lock) (doubt bool, err error) {
	return es.erase(ctx, l.Key(), l.Token())
}

func (es *entries) erase(ctx context.Context, key, entry string) (doubt bool, err error) {
	return onredis.Erase(ctx, es.Config.Timeout, func(ctx context.Context) (int64, error) {
		return es.leave.Run(ctx, es.Erasing, []string{key}, entry).Int64()
	})
}
