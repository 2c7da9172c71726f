package lock

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// Two goroutines and a few connections renew a thousand locks.
func TestRunRenewsManyLocks(t *testing.T) { servertest.Bubble(t, runRenewsManyLocks) }

func runRenewsManyLocks(t *testing.T) {
	const locks, leased = 1000, time.Hour
	ctx, s := check.Context(t), server{servertest.InTime(t).Mini.Addr, soon}
	var renewed sync.Map // by key
	c := s.client(t, lease.Config{Lease: leased, Hooks: lease.Hooks{Renewed: func(_ context.Context, key string, err error) {
		if err == nil {
			renewed.Store(key, true)
		}
	}}})
	held := make([]*lease.Lock, locks)
	for i := range held {
		l, err := c.TryAcquire(ctx, fmt.Sprintf("lock:{%d}", i))
		check.Must(t, err)
		held[i] = l
	}
	check.Eventually(t, "every lock has been renewed", func() bool {
		return !slices.ContainsFunc(held, func(l *lease.Lock) bool { _, ok := renewed.Load(l.Key()); return !ok })
	})
	for _, l := range held {
		if l.Context().Err() != nil {
			t.Fatalf("lock after its renewals: got it lost with cause %v, want it held", context.Cause(l.Context()))
		}
	}
	check.Eventually(t, "the only goroutines are Run and its listener", func() bool { return goroutines() == 2 })
	stats := c.store.RDB.PoolStats()
	if n := stats.TotalConns + stats.PubSubStats.Active; n > 4 {
		t.Errorf("Redis client: got %d connections for %d locks, want at most 4", n, locks)
	}
}

// goroutines returns the number of goroutines that run code of the lock packages.
func goroutines() int {
	buf := make([]byte, 8<<20)
	n := 0
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		for _, ours := range []string{"/lock.(*Client)", "/lock.(*lease.Lock)", "/lock.(*waits)", "/lock.(*Leases)"} {
			if strings.Contains(stack, ours) {
				n++
				break
			}
		}
	}
	return n
}

// Remaining reports on free, held and foreign keys.
func TestRemaining(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		ctx := check.Context(t)
		c := s.client(t, lease.Config{Lease: time.Minute})
		check.Must(t, check.Err(c.TryAcquire(ctx, "lock:{held}")))
		check.Must(t, s.connect(t).Set(ctx, "lock:{foreign}", "x", 0).Err())
		left, err := c.Remaining(ctx, "lock:{free}", "lock:{held}", "lock:{foreign}")
		check.Must(t, err)
		if left[0] != 0 || left[1] < 50*time.Second || left[1] > time.Minute || left[2] != lease.Forever {
			t.Errorf("remaining times of the locks: got %v, want 0, a minute, Forever", left)
		}
		if left, err := c.Remaining(ctx); err != nil || len(left) != 0 {
			t.Errorf("remaining without keys: got %v, error %v, want none", left, err)
		}
	})
}

// Acquire, hand-over, renewal and release work in Redis Cluster with keys of several nodes.
func TestCluster(t *testing.T) {
	t.Parallel()
	ctx := check.Context(t)
	nodes := servertest.OpenRedisCluster(t, 1).Nodes
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = rdb.Close() })
	c := New(rdb, far)
	run(t, c)
	for _, key := range []string{"lock:{a}", "lock:{b}", "lock:{c}"} {
		l, err := c.TryAcquire(ctx, key)
		check.Must(t, err)
		next := make(chan error, 1)
		go func() { _, err := c.Acquire(ctx, key); next <- err }()
		check.Eventually(t, "the waiter is in the queue", func() bool {
			return rdb.ZCard(ctx, onredis.Keys(key)[1]).Val() == 1
		})
		c.leases.Renew(ctx, time.Now().Add(c.leases.Lease))
		check.Must(t, l.Release(ctx))
		check.Must(t, <-next)
	}
}

func TestConfig(t *testing.T) {
	if err := (lease.Config{}).Validate(); err != nil {
		t.Errorf("zero Config: got error %v, want none", err)
	}
	err := lease.Config{Lease: time.Millisecond, Drift: time.Second, Timeout: time.Second, MaxHold: -1}.Validate()
	for _, field := range []string{"Lease", "Drift", "Timeout", "MaxHold"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("invalid Config: got error %v, want one that names %s", err, field)
		}
	}
	if d := (lease.Config{Lease: 10*time.Millisecond + 1}).WithDefaults().Lease; d != 11*time.Millisecond {
		t.Errorf("lease: got %v, want 11ms, rounded up", d)
	}
}
