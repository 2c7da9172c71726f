// Package fence issues fencing tokens: what a lock needs where two writers would do
// damage.
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

// An Issuer issues fencing tokens: each greater than all that it has issued for
// the key before. The resource that is written remembers the greatest it has
// seen and refuses a smaller one, so that a holder which woke up late changes
// nothing. (Martin Kleppmann, "How to do distributed locking", 2016.)
//
// It is best issued by the resource itself, in the transaction that remembers
// it: that is what mysql.Fence does, and it needs nothing else to be right.
type Issuer interface {
	Raise(ctx context.Context, l *lease.Lock) (int64, error)
}

// Acquire is the Locker's with a fencing token, issued while the lock is held; if that
// fails the lock is given back.
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

// Redis issues tokens by a counter in Redis, for resources that can compare
// a number but not issue one. It is for the locks of a Client.
//
// Its limit: it knows what its Redis knows. After a failover to a replica that
// missed the last increment, or a restart that lost it, the same number is
// issued AGAIN, to the next holder, and the resource can't tell the two apart;
// see "failover" among the antipatterns. WAIT does not mend that. Only a counter that is
// as durable as the resource does.
//
// The counter is kept for ever: a key that expired would count from 1 again.
type Redis struct {
	rdb    redis.UniversalClient
	script *redis.Script
}

// NewRedis returns an Issuer on the Redis that keeps the locks: it raises the
// counter only for who holds the lock there.
func NewRedis(rdb redis.UniversalClient) *Redis {
	return &Redis{rdb, redis.NewScript(onredis.ValueSource + fenceSource)}
}

// Raise is the Issuer's. It returns ErrExpired or ErrNotMine, and no token, when
// l is not held any more by what Redis knows. To repeat it is harmless: a number
// is left out.
func (f *Redis) Raise(ctx context.Context, l *lease.Lock) (int64, error) {
	n, err := f.script.Run(ctx, f.rdb, []string{l.Key(), onredis.Tagged(l.Key()) + ":fence"}, l.Token()).Int64()
	if err == nil && n <= 0 {
		err = onredis.Verdict(n, nil)
	}
	if err != nil {
		return 0, fmt.Errorf("raise fence of %q: %w", l.Key(), err)
	}
	return n, nil
}
