package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// A Fence issues fencing tokens: each greater than all that it has issued for
// the key before. The resource that is written remembers the greatest it has
// seen and refuses a smaller one, so that a holder which woke up late changes
// nothing. (Martin Kleppmann, "How to do distributed locking", 2016.)
//
// It is best issued by the resource itself, in the transaction that remembers
// it: that is what mysql.Fence does, and it needs nothing else to be right.
type Fence interface {
	Raise(ctx context.Context, l *Lock) (int64, error)
}

// AcquireFenced is Acquire and the fence, raised while the lock is held; if that
// fails the lock is given back.
func AcquireFenced(ctx context.Context, locks Locker, fence Fence, key string) (*Lock, int64, error) {
	l, err := locks.Acquire(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	var token int64
	err = under(ctx, l, func(ctx context.Context) (err error) {
		token, err = fence.Raise(ctx, l)
		return err
	})
	if err != nil {
		return nil, 0, errors.Join(err, l.Release(ctx))
	}
	return l, token, nil
}

//go:embed fence.lua
var fenceSource string

// RedisFence issues tokens by a counter in Redis, for resources that can compare
// a number but not issue one. It is for the locks of a Client.
//
// Its limit: it knows what its Redis knows. After a failover to a replica that
// missed the last increment, or a restart that lost it, the same number is
// issued AGAIN, to the next holder, and the resource can't tell the two apart;
// see "failover" among the antipatterns. WAIT does not mend that. Only a counter that is
// as durable as the resource does.
//
// The counter is kept for ever: a key that expired would count from 1 again.
type RedisFence struct {
	rdb    redis.UniversalClient
	script *redis.Script
}

// NewRedisFence returns a Fence on the Redis that keeps the locks: it raises the
// counter only for who holds the lock there.
func NewRedisFence(rdb redis.UniversalClient) *RedisFence {
	return &RedisFence{rdb, redis.NewScript(fenceSource)}
}

// Raise is the Fence's. It returns ErrExpired or ErrNotMine, and no token, when
// l is not held any more by what Redis knows. To repeat it is harmless: a number
// is left out.
func (f *RedisFence) Raise(ctx context.Context, l *Lock) (int64, error) {
	n, err := f.script.Run(ctx, f.rdb, []string{l.key, tagged(l.key) + ":fence"}, l.token).Int64()
	if err == nil && n <= 0 {
		err = verdict(n)
	}
	if err != nil {
		return 0, fmt.Errorf("raise fence of %q: %w", l.key, err)
	}
	return n, nil
}
