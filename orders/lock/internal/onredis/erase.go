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

// Release is lease.Store's.
func (s *Store) Release(ctx context.Context, l *lease.Lock) (doubt bool, err error) {
	return s.Erase(ctx, l.Key(), l.Token())
}

const eraseAttempts = 4

// Erase gives up the lock of key if it holds token, or token's place in line. It tries
// until it has an answer, with a time of its own. It returns nil, lease.ErrExpired,
// lease.ErrNotMine, or lease.ErrUnknown with the last failure; doubt says that an
// attempt's answer was lost, so that it may have done its work unseen.
func (s *Store) Erase(ctx context.Context, key, token string) (doubt bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Config.Timeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		reply, err := s.Scripts.Release.Run(ctx, s.Erasing, s.Keys(key, token), token, s.Config.Lease.Milliseconds(), s.Own).Int64()
		if err == nil {
			return doubt, Verdict(reply, nil)
		}
		doubt = doubt || !IsReply(err)
		if attempt == eraseAttempts || nap.For(ctx, 5*time.Millisecond+nap.Jitter(20*time.Millisecond)) != nil {
			return doubt, fmt.Errorf("%w: %w", lease.ErrUnknown, err)
		}
	}
}

// takeBack follows an attempt that failed with cause after it was sent: the
// script may have run, or may still do so, and its key would block everyone for
// a lease. The cleaning must outlive the caller's context, which is often the
// very thing that ended.
func (s *Store) takeBack(c *lease.Call, token string, cause error) error {
	err := cause
	switch {
	case errors.Is(cause, lease.ErrStopped) || IsReply(cause):
		// Known to have failed, at least the last time it was sent.
	case c.Ctx.Err() != nil:
		err = fmt.Errorf("%w: %w: %w", lease.ErrUnknown, lease.Ended(c.Ctx), cause)
	default:
		err = fmt.Errorf("%w: %w", lease.ErrUnknown, cause)
	}
	if _, eraseErr := s.Erase(c.Ctx, c.Key, token); errors.Is(eraseErr, lease.ErrUnknown) {
		err = fmt.Errorf("%w (and not taken back: %w)", err, eraseErr)
	}
	return err
}

// IsReply reports whether err is an answer of Redis, and not a failure to reach it.
func IsReply(err error) bool {
	_, is := errors.AsType[redis.Error](err)
	return is
}
