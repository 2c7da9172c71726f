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

// Erase gives up the lock of key if it holds token, or token's place in line.
func (s *Store) Erase(ctx context.Context, key, token string) (doubt bool, err error) {
	return Erase(ctx, s.Config.Timeout, func(ctx context.Context) (int64, error) {
		return s.Scripts.Release.Run(ctx, s.Erasing, Keys(key), token, s.Reach).Int64()
	})
}

// TakeBack is what follows an attempt that failed with cause after it was sent.
func (s *Store) TakeBack(ctx context.Context, key, token string, cause error) error {
	return TakeBack(ctx, cause, func() error { _, err := s.Erase(ctx, key, token); return err })
}

const eraseAttempts = 4

// Erase tries until it has an answer, with a time of its own. It returns nil,
// lease.ErrExpired, lease.ErrNotMine, or lease.ErrUnknown with the last failure; doubt says that
// an attempt's answer was lost, so that it may have done its work unseen.
func Erase(ctx context.Context, timeout time.Duration, once func(context.Context) (int64, error)) (doubt bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		reply, err := once(ctx)
		if err == nil {
			return doubt, Verdict(reply, nil)
		}
		doubt = doubt || !IsReply(err)
		if attempt == eraseAttempts || nap.For(ctx, 5*time.Millisecond+nap.Jitter(20*time.Millisecond)) != nil {
			return doubt, fmt.Errorf("%w: %w", lease.ErrUnknown, err)
		}
	}
}

// TakeBack follows an attempt that failed with cause after it was sent: the
// script may have run, or may still do so, and its key would block everyone for
// a lease. The cleaning must outlive the caller's context, which is often the
// very thing that ended.
func TakeBack(ctx context.Context, cause error, erase func() error) error {
	err := cause
	switch {
	case errors.Is(cause, lease.ErrStopped) || IsReply(cause):
		// Known to have failed, at least the last time it was sent.
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w: %w", lease.ErrUnknown, lease.Ended(ctx), cause)
	default:
		err = fmt.Errorf("%w: %w", lease.ErrUnknown, cause)
	}
	if eraseErr := erase(); errors.Is(eraseErr, lease.ErrUnknown) {
		err = fmt.Errorf("%w (and not taken back: %w)", err, eraseErr)
	}
	return err
}

// IsReply tells an error that Redis answered from one of the way to it.
func IsReply(err error) bool {
	_, is := errors.AsType[redis.Error](err)
	return is
}
