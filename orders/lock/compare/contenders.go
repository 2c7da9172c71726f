package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"flashsale/orders/lock"
	"flashsale/orders/lock/lease"
)

// A lockContender is a library and a way to use it. open is a process.
type lockContender struct {
	name, how string
	open      func(addr string) (process, error)
}

// A process has connections of its own. lock waits.
type process struct {
	lock  func(ctx context.Context, key string) (unlock func() error, err error)
	close func()
}

// What waits by asking again does so every millisecond when tuned.
const often = time.Millisecond

var lockContenders = []lockContender{
	{"ours", "defaults", ours(lease.Config{})},
	{"ours", "asking every 1ms", ours(lease.Config{Retry: lease.Every(often)})},
	{"redsync", "defaults", redsyncs()},
	{"redsync", "tuned: every 1ms", redsyncs(redsync.WithRetryDelay(often), redsync.WithTries(1<<30))},
	// It does not wait by default: this is its README's.
	{"redislock", "LinearBackoff(100ms)", redislocks(100 * time.Millisecond)},
	{"redislock", "tuned: LinearBackoff(1ms)", redislocks(often)},
	{"rueidislock", "defaults", rueidislocks(rueidislock.LockerOption{})},
	// NoLoopTracking is left out: with it, WithContext waited for ever on locks
	// that its own process had released, with 64 keys at once.
	{"rueidislock", "tuned: 1 key", rueidislocks(rueidislock.LockerOption{KeyMajority: 1})},
}

func goRedis(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64, MinIdleConns: 1, ContextTimeoutEnabled: true})
}

func ours(cfg lease.Config) func(string) (process, error) {
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	return func(addr string) (process, error) {
		rdb := goRedis(addr)
		c := lock.New(rdb, cfg)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { _ = c.Run(ctx); close(done) }()
		return process{
			lock: func(ctx context.Context, key string) (func() error, error) {
				l, err := c.Acquire(ctx, key)
				if err != nil {
					return nil, err
				}
				return func() error { return l.Release(context.Background()) }, nil
			},
			close: func() { cancel(); <-done; _ = rdb.Close() },
		}, nil
	}
}

func redsyncs(options ...redsync.Option) func(string) (process, error) {
	return func(addr string) (process, error) {
		rdb := goRedis(addr)
		rs := redsync.New(redsyncredis.NewPool(rdb))
		return process{
			lock: func(ctx context.Context, key string) (func() error, error) {
				m := rs.NewMutex(key, options...)
				for {
					err := m.LockContext(ctx)
					// Its 32 tries are over: it is for the caller to begin anew.
					if errors.Is(err, redsync.ErrFailed) || errors.As(err, new(*redsync.ErrTaken)) {
						if ctx.Err() == nil {
							continue
						}
					}
					if err != nil {
						return nil, err
					}
					return func() error { _, err := m.Unlock(); return err }, nil
				}
			},
			close: func() { _ = rdb.Close() },
		}, nil
	}
}

func redislocks(every time.Duration) func(string) (process, error) {
	return func(addr string) (process, error) {
		rdb := goRedis(addr)
		c := redislock.New(rdb)
		return process{
			lock: func(ctx context.Context, key string) (func() error, error) {
				// Without a deadline it waits no longer than the lease.
				waiting, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				l, err := c.Obtain(waiting, key, 5*time.Second, &redislock.Options{RetryStrategy: redislock.LinearBackoff(every)})
				if err != nil {
					return nil, err
				}
				return func() error { return l.Release(context.Background()) }, nil
			},
			close: func() { _ = rdb.Close() },
		}, nil
	}
}

func rueidislocks(option rueidislock.LockerOption) func(string) (process, error) {
	return func(addr string) (process, error) {
		option := option
		option.ClientOption = rueidis.ClientOption{InitAddress: []string{addr}}
		l, err := rueidislock.NewLocker(option)
		if err != nil {
			return process{}, err
		}
		return process{
			lock: func(ctx context.Context, key string) (func() error, error) {
				_, cancel, err := l.WithContext(ctx, key)
				if err != nil {
					return nil, err
				}
				return func() error { cancel(); return nil }, nil
			},
			close: l.Close,
		}, nil
	}
}
