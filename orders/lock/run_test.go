package lock

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Thousands of locks are renewed by one loop: two goroutines, few connections.
func TestThousandsOfLocks(t *testing.T) {
	const locks, lease = 1000, 12 * time.Second
	start := embedded
	if serverPath() != "" {
		start = func(t *testing.T) server { return real(t) }
	}
	ctx, s := background(t), start(t)
	c := s.client(t, Config{Lease: lease})
	held, acquired := make([]*Lock, locks), make([]time.Time, locks)
	for i := range held {
		l, err := c.TryAcquire(ctx, fmt.Sprintf("lock:{%d}", i))
		if err != nil {
			t.Fatal(err)
		}
		held[i], acquired[i] = l, l.lastRenewal()
	}
	eventually(t, "every lock renewed", func() bool {
		for i, l := range held {
			if !l.lastRenewal().After(acquired[i]) {
				return false
			}
		}
		return true
	})
	for _, l := range held {
		if l.Context().Err() != nil {
			t.Fatalf("lost: %v", context.Cause(l.Context()))
		}
	}
	eventually(t, "goroutines are Run and its listener", func() bool { return goroutines() == 2 })
	stats := c.rdb.PoolStats()
	if n := stats.TotalConns + stats.PubSubStats.Active; n > 4 {
		t.Errorf("%d connections for %d locks", n, locks)
	}
}

func (l *Lock) lastRenewal() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed
}

// goroutines counts those that this package has started or runs in.
func goroutines() int {
	buf := make([]byte, 8<<20)
	n := 0
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		for _, ours := range []string{"orders/lock.(*Client)", "orders/lock.(*Lock)", "orders/lock.(*waits)", "orders/lock.(*Leases)"} {
			if strings.Contains(stack, ours) {
				n++
				break
			}
		}
	}
	return n
}

// One round trip tells the time left of many locks.
func TestRemaining(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		ctx := background(t)
		c := s.client(t, Config{Lease: time.Minute})
		if _, err := c.TryAcquire(ctx, "lock:{held}"); err != nil {
			t.Fatal(err)
		}
		if err := s.connect(t).Set(ctx, "lock:{foreign}", "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
		left, err := c.Remaining(ctx, "lock:{free}", "lock:{held}", "lock:{foreign}")
		if err != nil {
			t.Fatal(err)
		}
		if left[0] != 0 || left[1] < 50*time.Second || left[1] > time.Minute || left[2] != Forever {
			t.Errorf("remaining %v, want 0, a minute, for ever", left)
		}
		if left, err := c.Remaining(ctx); err != nil || len(left) != 0 {
			t.Errorf("remaining of nothing: %v, %v", left, err)
		}
	})
}

// Every operation works in Redis Cluster, where a key decides on the node.
func TestCluster(t *testing.T) {
	s := real(t, "--cluster-enabled", "yes")
	ctx := background(t)
	if err := s.connect(t).Do(ctx, "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		t.Skip("no CLUSTER ADDSLOTSRANGE: ", err)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.addr}, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = rdb.Close() })
	c := New(rdb, far)
	run(t, c)
	eventually(t, "the cluster is up", func() bool {
		_, err := c.Remaining(ctx, "lock:{a}")
		return err == nil
	})
	for _, key := range []string{"lock:{a}", "lock:{b}", "lock:{c}"} {
		l, err := c.TryAcquire(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		next := make(chan error, 1)
		go func() { _, err := c.Acquire(ctx, key); next <- err }()
		eventually(t, "the waiter is in line", func() bool {
			return rdb.ZCard(ctx, keys(key)[1]).Val() == 1
		})
		c.leases.renewDue(ctx, time.Now().Add(c.cfg.Lease))
		if err := l.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if err := <-next; err != nil {
			t.Fatal(err)
		}
	}
}

func TestConfig(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("zero Config: %v", err)
	}
	err := Config{Lease: time.Millisecond, Drift: time.Second, Timeout: time.Second, MaxHold: -1}.Validate()
	for _, field := range []string{"Lease", "Drift", "Timeout", "MaxHold"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	if d := (Config{Lease: 10*time.Millisecond + 1}).WithDefaults().Lease; d != 11*time.Millisecond {
		t.Errorf("lease %v, want it rounded up", d)
	}
}
