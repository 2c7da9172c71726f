// Package fence issues fencing tokens: numbers by which a resource rejects the writes of a
// former lock holder.
package fence

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// An Issuer issues fencing tokens. Each token is greater than all earlier tokens of its
// key. The resource that is written under the lock stores the greatest token it has
// received and rejects smaller ones, so a holder that wakes up late cannot write. (Martin
// Kleppmann, "How to do distributed locking", 2016.)
//
// The safest issuer is the resource itself, in a transaction that stores the token. See
// mysql.Fence.
type Issuer interface {
	// Raise issues the next token to l, which must be held.
	Raise(ctx context.Context, l *lease.Lock) (int64, error)
}

// Acquire acquires the lock and returns it with a fencing token. If the token cannot be
// issued, Acquire releases the lock.
func Acquire(ctx context.Context, locks lease.Locker, issuer Issuer, key string, options ...lease.Option) (*lease.Lock, int64, error) {
	l, err := locks.Acquire(ctx, key, options...)
	if err != nil {
		return nil, 0, err
	}
	var token int64
	err = l.Do(ctx, func(ctx context.Context) (err error) {
		token, err = issuer.Raise(ctx, l)
		return err
	})
	if err != nil {
		return nil, 0, errors.Join(err, l.Release(ctx))
	}
	return l, token, nil
}

//go:embed fence.lua
var fenceSource string

// Redis issues the tokens from a counter in Redis, for resources that can compare numbers
// but not issue them. It works with the locks of a lock.Client.
//
// If Redis loses an increment, in a failover or a restart, Redis issues the same token
// AGAIN, to the next holder. The resource then cannot distinguish the two holders. WAIT
// does not prevent this; only a counter that is as durable as the resource does. The
// antipattern "failover" shows it.
//
// The counter never expires, because an expired counter would start at 1 again.
type Redis struct {
	rdb    redis.UniversalClient
	script *redis.Script
}

// NewRedis returns an Issuer on rdb, which must be the Redis that keeps the locks.
func NewRedis(rdb redis.UniversalClient) *Redis {
	return &Redis{rdb, redis.NewScript(onredis.ValueSource + fenceSource)}
}

// Raise implements Issuer. It returns ErrExpired or ErrNotMine if Redis no longer has l.
// Repeating a call is harmless: it skips a number.
func (f *Redis) Raise(ctx context.Context, l *lease.Lock) (int64, error) {
	n, err := f.script.Run(ctx, f.rdb, []string{l.Key(), onredis.Tagged(l.Key()) + ":fence"}, l.Token()).Int64()
	if err == nil && n <= 0 {
		err = onredis.ReplyError(n, nil)
	}
	if err != nil {
		return 0, fmt.Errorf("raise the fence of %q: %w", l.Key(), err)
	}
	return n, nil
}
