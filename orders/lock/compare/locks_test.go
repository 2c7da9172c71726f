package compare

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock"
	"flashsale/orders/lock/lease"
)

// A kind is a library in one configuration. open starts a process with its own connections,
// which ends with the benchmark.
type kind struct {
	name string
	open func(b *testing.B, addr string) acquire
}

// acquire waits for a lock.
type acquire func(ctx context.Context, key string) (unlock func() error, err error)

// often is the interval at which a tuned library polls.
const often = time.Millisecond

var locks = []kind{
	{"ours", ours(lease.Config{})},
	{"ours,every=1ms", ours(lease.Config{Retry: lease.Every(often)})},
	{"redsync", redsyncs()},
	{"redsync,every=1ms", redsyncs(redsync.WithRetryDelay(often), redsync.WithTries(1<<30))},
	// redislock does not wait by default. The interval is that of its README.
	{"redislock,every=100ms", redislocks(100 * time.Millisecond)},
	{"redislock,every=1ms", redislocks(often)},
	{"rueidislock", rueidislocks(rueidislock.LockerOption{})},
	// NoLoopTracking is not set: with it and 64 keys, WithContext never returned for locks
	// that its own process had released.
	{"rueidislock,keys=1", rueidislocks(rueidislock.LockerOption{KeyMajority: 1})},
}

func goRedis(b *testing.B, addr string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64, MinIdleConns: 1, ContextTimeoutEnabled: true})
	b.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func ours(cfg lease.Config) func(*testing.B, string) acquire {
	cfg.Logger = slog.New(slog.DiscardHandler)
	return func(b *testing.B, addr string) acquire {
		c := lock.New(goRedis(b, addr), cfg)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { _ = c.Run(ctx); close(done) }()
		b.Cleanup(func() { cancel(); <-done })
		return func(ctx context.Context, key string) (func() error, error) {
			l, err := c.Acquire(ctx, key)
			if err != nil {
				return nil, err
			}
			return func() error { return l.Release(context.Background()) }, nil
		}
	}
}

func redsyncs(options ...redsync.Option) func(*testing.B, string) acquire {
	return func(b *testing.B, addr string) acquire {
		rs := redsync.New(redsyncredis.NewPool(goRedis(b, addr)))
		return func(ctx context.Context, key string) (func() error, error) {
			m := rs.NewMutex(key, options...)
			for {
				err := m.LockContext(ctx)
				// After 32 tries redsync leaves it to the caller to retry.
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
		}
	}
}

func redislocks(every time.Duration) func(*testing.B, string) acquire {
	return func(b *testing.B, addr string) acquire {
		c := redislock.New(goRedis(b, addr))
		return func(ctx context.Context, key string) (func() error, error) {
			// Without a deadline, Obtain waits for at most one lease.
			waiting, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			l, err := c.Obtain(waiting, key, 5*time.Second, &redislock.Options{RetryStrategy: redislock.LinearBackoff(every)})
			if err != nil {
				return nil, err
			}
			return func() error { return l.Release(context.Background()) }, nil
		}
	}
}

func rueidislocks(option rueidislock.LockerOption) func(*testing.B, string) acquire {
	return func(b *testing.B, addr string) acquire {
		option := option
		option.ClientOption = rueidis.ClientOption{InitAddress: []string{addr}}
		l, err := rueidislock.NewLocker(option)
		check.Must(b, err)
		b.Cleanup(l.Close)
		return func(ctx context.Context, key string) (func() error, error) {
			_, cancel, err := l.WithContext(ctx, key)
			if err != nil {
				return nil, err
			}
			return func() error { cancel(); return nil }, nil
		}
	}
}
