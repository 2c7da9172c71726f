package lock_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock"
	"flashsale/orders/lock/locktest"
)

// The suite over every kind of lock in Redis, embedded and real.
func TestConformance(t *testing.T) {
	acquire, renew, release := lock.Hashes()
	one := locktest.Store{
		New: func(t testing.TB, servers []string, cfg lock.Config) lock.Locker {
			return lock.New(connect(t, servers[0]), cfg)
		},
		Acquires: contains(acquire), Renews: contains(renew), Releases: contains(release),
		InOrder: true,
	}
	asking := one
	asking.New = func(t testing.TB, servers []string, cfg lock.Config) lock.Locker {
		cfg.Retry = lock.Every(5 * time.Millisecond)
		return lock.New(connect(t, servers[0]), cfg)
	}
	asking.InOrder = false
	majority := asking
	majority.New = func(t testing.TB, servers []string, cfg lock.Config) lock.Locker {
		var masters []redis.UniversalClient
		for _, server := range servers {
			masters = append(masters, connect(t, server))
		}
		return lock.NewRedlock(masters, cfg)
	}
	const asks = "redis, asking again"
	for _, kind := range []struct {
		name    string
		servers int
		locktest.Store
	}{{"redis", 1, one}, {asks, 1, asking}, {"redlock", 3, majority}} {
		for where, start := range map[string]func(*testing.T) string{"embedded": lock.StartEmbedded, "real": lock.StartReal} {
			if kind.name == asks && where == "embedded" {
				continue // it differs from the first in its client only
			}
			t.Run(kind.name+"/"+where, func(t *testing.T) {
				t.Parallel()
				store := kind.Store
				store.Lease = 4 * time.Second
				for range kind.servers {
					store.Servers = append(store.Servers, start(t))
				}
				store.Fence = func(t testing.TB, _ lock.Locker) lock.Fence {
					rdb := connect(t, store.Servers[0])
					if kind.servers > 1 {
						return counter{rdb} // any master may be the one that has no vote of ours
					}
					return lock.NewRedisFence(rdb)
				}
				store.Steal = func(t testing.TB, key string) {
					for _, server := range store.Servers {
						if err := connect(t, server).Set(t.Context(), key, "thief", 0).Err(); err != nil {
							t.Fatal(err)
						}
					}
				}
				locktest.Run(t, store)
			})
		}
	}
}

// counter stands for a resource that issues its own tokens.
type counter struct{ *redis.Client }

func (c counter) Raise(ctx context.Context, l *lock.Lock) (int64, error) {
	return c.Incr(ctx, l.Key()+":counter").Result()
}

func connect(t testing.TB, addr string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func contains(marker string) func([]byte) bool {
	return func(chunk []byte) bool { return bytes.Contains(chunk, []byte(marker)) }
}
