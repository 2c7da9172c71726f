package lock_test

import (
	"bytes"
	"context"
	"crypto/rand"
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
		Ready:   func(l lock.Locker) bool { return lock.Listens(l.(*lock.Client)) },
	}
	asking := one
	asking.New = func(t testing.TB, servers []string, cfg lock.Config) lock.Locker {
		cfg.Retry = lock.Every(5 * time.Millisecond)
		return lock.New(connect(t, servers[0]), cfg)
	}
	asking.InOrder, asking.Ready = false, nil
	majority := asking
	majority.New = func(t testing.TB, servers []string, cfg lock.Config) lock.Locker {
		var masters []redis.UniversalClient
		for _, server := range servers {
			masters = append(masters, connect(t, server))
		}
		return lock.NewRedlock(masters, cfg)
	}
	entering := one
	enter, reenter, leave := lock.ReentrantHashes()
	entering.New = func(t testing.TB, servers []string, cfg lock.Config) lock.Locker {
		return lock.NewReentrant(connect(t, servers[0]), rand.Text(), cfg)
	}
	entering.Acquires, entering.Renews, entering.Releases = contains(enter), contains(reenter), contains(leave)
	entering.InOrder, entering.Ready, entering.Reentrant = false, nil, true

	const asks = "redis, asking again"
	for _, kind := range []struct {
		name    string
		servers int
		locktest.Store
	}{{"redis", 1, one}, {asks, 1, asking}, {"redlock", 3, majority}, {"reentrant", 1, entering}} {
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
					if kind.name == "redlock" || kind.Reentrant {
						// Any master may be the one that has no vote of ours, and
						// what a Reentrant keeps is no token that could be compared.
						return counter{rdb}
					}
					return lock.NewRedisFence(rdb)
				}
				store.Steal = func(t testing.TB, key string) {
					for _, server := range store.Servers {
						steal(t, connect(t, server), key, kind.Reentrant)
					}
				}
				locktest.Run(t, store)
			})
		}
	}
}

// steal has a thief hold key, for ever.
func steal(t testing.TB, rdb *redis.Client, key string, reentrant bool) {
	_, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Del(t.Context(), key)
		if reentrant {
			return p.HSet(t.Context(), key, "owner", "thief", "entry:1", 1).Err()
		}
		return p.Set(t.Context(), key, "thief", 0).Err()
	})
	if err != nil {
		t.Fatal(err)
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
