package lock_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock"
	"flashsale/orders/lock/fence"
	"flashsale/orders/lock/lease"
	"flashsale/orders/lock/locktest"
	"flashsale/orders/lock/redlock"
	"flashsale/orders/lock/reentrant"
	"flashsale/orders/lock/semaphore"
)

// TestConformance runs the suite on every kind of lock in Redis, embedded and real.
func TestConformance(t *testing.T) {
	t.Parallel()
	acquire := hashOf(t, "internal/onredis/value.lua", "internal/onredis/hand_over.lua", "internal/onredis/acquire.lua")
	renew, release := hashOf(t, "internal/onredis/value.lua", "internal/onredis/renew.lua"), hashOf(t, "internal/onredis/value.lua", "internal/onredis/hand_over.lua", "internal/onredis/release.lua")
	one := locktest.Store{
		New: func(t testing.TB, servers []string, cfg lease.Config) lease.Locker {
			return lock.New(servertest.Connect(t, servers[0]), cfg)
		},
		Acquires: contains(acquire), Renews: contains(renew), Releases: contains(release),
		InOrder: true,
		Ready:   func(l lease.Locker) bool { return lock.Listens(l.(*lock.Client)) },
	}
	asksAgain := lease.Every(5 * time.Millisecond)
	asking := one
	asking.New = func(t testing.TB, servers []string, cfg lease.Config) lease.Locker {
		cfg.Retry = asksAgain
		return lock.New(servertest.Connect(t, servers[0]), cfg)
	}
	asking.InOrder, asking.Ready = false, nil
	majority := asking
	majority.Acquires, majority.Releases = contains(hashOf(t, "internal/onredis/value.lua", "redlock/vote.lua")), contains(hashOf(t, "redlock/drop.lua"))
	majority.New = func(t testing.TB, servers []string, cfg lease.Config) lease.Locker {
		var masters []redis.UniversalClient
		for _, server := range servers {
			masters = append(masters, servertest.Connect(t, server))
		}
		return redlock.New(masters, cfg)
	}
	entering := one
	enter, reenter, leave := hashOf(t, "reentrant/keep.lua", "reentrant/enter.lua"), hashOf(t, "reentrant/keep.lua", "reentrant/reenter.lua"), hashOf(t, "reentrant/leave.lua")
	entering.New = func(t testing.TB, servers []string, cfg lease.Config) lease.Locker {
		return reentrant.New(servertest.Connect(t, servers[0]), rand.Text(), cfg)
	}
	entering.Acquires, entering.Renews, entering.Releases = contains(enter), contains(reenter), contains(leave)
	entering.InOrder, entering.Ready, entering.Reentrant = false, nil, true

	places := one
	part := func(name string) func([]byte) bool {
		return contains(hashOf(t, "semaphore/places.lua", "semaphore/"+name))
	}
	places.New = func(t testing.TB, servers []string, cfg lease.Config) lease.Locker {
		cfg.Retry = lease.Every(2 * time.Millisecond) // with the default, thousands of calls in sequence take half a minute
		return semaphore.New(servertest.Connect(t, servers[0]), 1, cfg)
	}
	places.Acquires, places.Renews, places.Releases, places.Ready = part("take.lua"), part("renew.lua"), part("leave.lua"), nil

	const asks = "redis, asking again"
	for _, kind := range []struct {
		name    string
		servers int
		locktest.Store
	}{{"redis", 1, one}, {asks, 1, asking}, {"redlock", 3, majority}, {"reentrant", 1, entering}, {"semaphore", 1, places}} {
		if kind.name != asks { // asks differs from the first kind only in its client
			t.Run(kind.name+"/embedded", func(t *testing.T) {
				locktest.RunInTime(t, func(t *testing.T) locktest.Store {
					var servers []string
					for range kind.servers {
						servers = append(servers, servertest.InTime(t).Mini.Addr)
					}
					return on(servers, kind.name, kind.Store)
				})
			})
		}
		t.Run(kind.name+"/real", func(t *testing.T) {
			t.Parallel()
			var addrs []string
			for range kind.servers {
				addrs = append(addrs, servertest.OpenRedis(t, servers.KindReal).Real.Addr())
			}
			locktest.Run(t, on(addrs, kind.name, kind.Store))
		})
	}
}

// on returns store with the servers and the fence for a kind of lock.
func on(servers []string, kind string, store locktest.Store) locktest.Store {
	store.Servers, store.Lease = servers, 4*time.Second
	store.Fence = func(t testing.TB, l lease.Locker) fence.Issuer {
		switch kind {
		case "redlock", "reentrant":
			// fence.Redis needs the token in the key. A Redlock may lack the vote of one
			// master, and a reentrant lock keeps a hash in its key.
			return counter{servertest.Connect(t, servers[0])}
		case "semaphore":
			return l.(*semaphore.Client)
		}
		return fence.NewRedis(servertest.Connect(t, servers[0]))
	}
	store.Steal = func(t testing.TB, key string) {
		for _, server := range servers {
			steal(t, servertest.Connect(t, server), key, kind)
		}
	}
	return store
}

// hashOf returns the hash of the script, by which the wire recognizes its commands.
func hashOf(t testing.TB, files ...string) string {
	t.Helper()
	var source strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		check.Must(t, err)
		source.Write(text)
	}
	return redis.NewScript(source.String()).Hash()
}

// steal makes another holder own key, without an expiry.
func steal(t testing.TB, rdb *redis.Client, key, kind string) {
	_, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Del(t.Context(), key)
		switch kind {
		case "reentrant":
			return p.HSet(t.Context(), key, "owner", "thief", "entry:1", 1).Err()
		case "semaphore":
			return p.ZAdd(t.Context(), key, redis.Z{Score: math.Inf(1), Member: "thief"}).Err()
		}
		return p.Set(t.Context(), key, "thief", 0).Err()
	})
	check.Must(t, err)
}

// counter stands for a resource that issues its own tokens.
type counter struct{ *redis.Client }

func (c counter) Raise(ctx context.Context, l *lease.Lock) (int64, error) {
	return c.Incr(ctx, l.Key()+":counter").Result()
}

func contains(marker string) func([]byte) bool {
	return func(chunk []byte) bool { return bytes.Contains(chunk, []byte(marker)) }
}
