package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Release is the Store's.
func (s store) Release(ctx context.Context, l *Lock) (doubt bool, err error) {
	return s.erase(ctx, l.key, l.token)
}

// erase gives up the lock of key if it holds token, or token's place in line.
func (s store) erase(ctx context.Context, key, token string) (doubt bool, err error) {
	return erase(ctx, s.cfg.Timeout, func(ctx context.Context) (int64, error) {
		return s.erasing.eval(ctx, s.scripts.release, keys(key), token, s.reach)
	})
}

func (s store) takeBack(ctx context.Context, key, token string, cause error) error {
	return takeBack(ctx, cause, func() error { _, err := s.erase(ctx, key, token); return err })
}

const eraseAttempts = 4

// erase tries until it has an answer, with a time of its own. It returns nil,
// ErrExpired, ErrNotMine, or ErrUnknown with the last failure; doubt says that
// an attempt's answer was lost, so that it may have done its work unseen.
func erase(ctx context.Context, timeout time.Duration, once func(context.Context) (int64, error)) (doubt bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		reply, err := once(ctx)
		if err == nil {
			return doubt, verdict(reply)
		}
		doubt = doubt || !isReply(err)
		if attempt == eraseAttempts || pause(ctx, nil, 5*time.Millisecond+jitter(20*time.Millisecond)) != nil {
			return doubt, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
	}
}

// takeBack follows an attempt that failed with cause after it was sent: the
// script may have run, or may still do so, and its key would block everyone for
// a lease. The cleaning must outlive the caller's context, which is often the
// very thing that ended.
func takeBack(ctx context.Context, cause error, erase func() error) error {
	err := cause
	switch {
	case errors.Is(cause, ErrStopped) || isReply(cause):
		// Known to have failed, at least the last time it was sent.
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w: %w", ErrUnknown, context.Cause(ctx), cause)
	default:
		err = fmt.Errorf("%w: %w", ErrUnknown, cause)
	}
	if eraseErr := erase(); errors.Is(eraseErr, ErrUnknown) {
		err = fmt.Errorf("%w (and not taken back: %w)", err, eraseErr)
	}
	return err
}

// isReply tells an error that Redis answered from one of the way to it.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
