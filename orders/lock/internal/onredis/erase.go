package onredis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/internal/nap"
	"flashsale/orders/lock/lease"
)

// Release implements lease.Store.
func (s *Store) Release(ctx context.Context, l *lease.Lock) (doubt bool, err error) {
	return s.Erase(ctx, l.Key(), l.Token())
}

const eraseAttempts = 4

// Erase releases the lock of key if token holds it, or removes token from the wait queue.
// It retries for Config.Timeout, even if ctx has ended. It returns nil, lease.ErrExpired,
// lease.ErrNotMine, or lease.ErrUnknown with the last failure. doubt is true if the answer
// to an attempt was lost, so that this attempt may have released the lock.
func (s *Store) Erase(ctx context.Context, key, token string) (doubt bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Config.Timeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		reply, err := s.Scripts.Release.Run(ctx, s.Erasing, s.Keys(key, token), token, s.Config.Lease.Milliseconds(), s.Extra).Int64()
		if err == nil {
			return doubt, ReplyError(reply, nil)
		}
		doubt = doubt || !IsReply(err)
		if attempt == eraseAttempts || nap.For(ctx, 5*time.Millisecond+nap.Jitter(20*time.Millisecond)) != nil {
			return doubt, fmt.Errorf("%w: %w", lease.ErrUnknown, err)
		}
	}
}

// takeBack erases an attempt that failed with cause after it was sent. The script may have
// run, or may still run, and would then block all callers for one lease. takeBack works
// even if the caller's context has ended, because that is often the cause.
func (s *Store) takeBack(c *lease.Call, token string, cause error) error {
	err := cause
	switch {
	case errors.Is(cause, lease.ErrStopped) || IsReply(cause):
		// The last request is known to have failed.
	case c.Ctx.Err() != nil:
		err = fmt.Errorf("%w: %w: %w", lease.ErrUnknown, lease.Ended(c.Ctx), cause)
	default:
		err = fmt.Errorf("%w: %w", lease.ErrUnknown, cause)
	}
	if _, eraseErr := s.Erase(c.Ctx, c.Key, token); errors.Is(eraseErr, lease.ErrUnknown) {
		err = fmt.Errorf("%w (and the lock was not released again: %w)", err, eraseErr)
	}
	return err
}

// IsReply reports whether err is an error reply of Redis, as opposed to a failure to
// receive one.
func IsReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}
