package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock"
	"flashsale/orders/lock/lease"
	"flashsale/orders/lock/redlock"
	"flashsale/orders/lock/reentrant"
	"flashsale/orders/lock/semaphore"
)

// clockLease is the holder's lease; clockStep is the step by which Redis's clock is set back.
const clockLease, clockStep = time.Minute, time.Hour

// A clockKind is a lock whose lease is a point in time of Redis's clock.
type clockKind struct {
	name string
	new  func(rdb *redis.Client, owner string, cfg lease.Config) lease.Locker
	step func(ctx context.Context, rdb *redis.Client, l *lease.Lock) error
	left func(ctx context.Context, rdb *redis.Client, l *lease.Lock) time.Duration
}

func expireLater(ctx context.Context, rdb *redis.Client, l *lease.Lock) error {
	return rdb.PExpire(ctx, l.Key(), l.Lease()+clockStep).Err()
}

func ttl(ctx context.Context, rdb *redis.Client, l *lease.Lock) time.Duration {
	return rdb.PTTL(ctx, l.Key()).Val()
}

var clockKinds = []clockKind{
	{"redis", func(rdb *redis.Client, _ string, cfg lease.Config) lease.Locker { return lock.New(rdb, cfg) }, expireLater, ttl},
	{"redlock", func(rdb *redis.Client, _ string, cfg lease.Config) lease.Locker {
		return redlock.New([]redis.UniversalClient{rdb}, cfg)
	}, expireLater, ttl},
	{"reentrant", func(rdb *redis.Client, owner string, cfg lease.Config) lease.Locker {
		return reentrant.New(rdb, owner, cfg)
	}, expireLater, ttl},
	{
		"semaphore", func(rdb *redis.Client, _ string, cfg lease.Config) lease.Locker { return semaphore.New(rdb, 1, cfg) },
		func(ctx context.Context, rdb *redis.Client, l *lease.Lock) error {
			return rdb.ZIncrBy(ctx, l.Key(), float64(clockStep.Milliseconds()), l.Token()).Err()
		},
		func(ctx context.Context, rdb *redis.Client, l *lease.Lock) time.Duration {
			end := rdb.ZScore(ctx, l.Key(), l.Token()).Val()
			return time.UnixMilli(int64(end)).Sub(rdb.Time(ctx).Val())
		},
	},
}

// If Redis's clock is set back, the end of each lease moves into the future by the step. The
// lock of a crashed holder is then free at once, and a place of a semaphore after one more
// lease. A holder that renews keeps its lock.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	for _, kind := range clockKinds {
		t.Run(kind.name, func(t *testing.T) {
			servertest.EachRedisInTime(t, func(t *testing.T, r *servertest.Redis) { kind.setBack(t, servertest.Connect(t, r.URL)) })
		})
	}
}

func (kind clockKind) setBack(t *testing.T, rdb *redis.Client) {
	ctx := t.Context()
	a := kind.new(rdb, "a", lease.Config{Lease: clockLease, Timeout: clockLease / 2})
	b := kind.new(rdb, "b", lease.Config{Lease: clockLease / 10, Timeout: clockLease / 20})
	try := func(what string, want error) *lease.Lock {
		t.Helper()
		l, err := b.TryAcquire(ctx, "lock:{sku}")
		if !errors.Is(err, want) {
			t.Fatalf("step %s with a clock set back: got error %v, want %v", what, err, want)
		}
		return l
	}
	l, err := a.TryAcquire(ctx, "lock:{sku}")
	check.Must(t, err)
	try("a holds the lock for longer than b's lease", lease.ErrHeld)
	check.Must(t, errors.Join(kind.step(ctx, rdb, l), l.Extend(ctx)))
	if left := kind.left(ctx, rdb, l); left > clockLease {
		t.Errorf("lease after a renewal: got %v left, want at most %v", left, clockLease)
	}
	try("a has renewed", lease.ErrHeld)

	check.Must(t, kind.step(ctx, rdb, l))
	if kind.name == "semaphore" {
		try("a has crashed, within one more lease", lease.ErrHeld)
		if left := kind.left(ctx, rdb, l); left > clockLease {
			t.Errorf("place of a crashed holder: got %v left, want at most %v", left, clockLease)
		}
		return
	}
	if left, err := b.Remaining(ctx, "lock:{sku}"); kind.name != "reentrant" && (err != nil || left[0] != 0) {
		t.Errorf("lock of a crashed holder: got remaining %v, error %v, want 0", left, err)
	}
	second := try("a has crashed", nil)
	check.Is(t, l.Extend(ctx), lease.ErrNotMine)
	if left := kind.left(ctx, rdb, second); left > second.Lease() {
		t.Errorf("b's lock: got %v left, want at most %v", left, second.Lease())
	}
}

// A semaphore passes over a waiter that crashed before Redis's clock was set back.
func TestClockSetBackSkipsCrashedWaiter(t *testing.T) {
	rdb := servertest.Connect(t, servertest.OpenRedis(t, servers.KindReal).URL)
	ctx, places := t.Context(), semaphore.New(rdb, 1, lease.Config{})
	until := rdb.Time(ctx).Val().Add(time.Hour).UnixMilli()
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, "{places}:line", redis.Z{Score: 1, Member: "dead.5000"})
		return p.HSet(ctx, "{places}:waiters", "dead.5000", until).Err()
	})
	if err == nil {
		_, err = places.TryAcquire(ctx, "{places}")
	}
	check.OK(t, err)
}
