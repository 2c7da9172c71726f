package mysql

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
	"flashsale/orders/lock/fence"
	"flashsale/orders/lock/internal/nap"
	"flashsale/orders/lock/lease"
)

// A master that Sentinel monitors dies. A replicated lock stays held and goes to its waiter.
// A lock that was not replicated goes to a second holder, and its first holder loses it. The
// fence in Redis then issues the same token to both holders, and the fence in MySQL a greater
// token to the second.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	sentinel := servertest.OpenRedisSentinel(t)
	db := open(t, servertest.OpenSQL(t, servers.KindReal), "")
	ctx := check.Context(t)
	check.Must(t, check.Err(db.ExecContext(ctx, FenceTable)))
	process := func(long time.Duration) (*lock.Client, *fence.Redis) {
		rdb := redis.NewUniversalClient(&redis.UniversalOptions{
			Addrs: []string{sentinel.Sentinel.Addr()}, MasterName: servers.SentinelMaster,
			ContextTimeoutEnabled: true, DialerRetries: 1,
		})
		c := lock.New(rdb, lease.Config{Lease: long, Timeout: long / 2})
		running, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- c.Run(running) }()
		t.Cleanup(func() { stop(); check.Must(t, <-done); check.Must(t, rdb.Close()) })
		return c, fence.NewRedis(rdb)
	}
	a, _ := process(time.Minute) // a lease that outlasts the failover
	b, redisB := process(time.Minute)
	brief, redisA := process(6 * time.Second) // a lease that is soon renewed
	mysql := NewFence(db)

	kept := acquire(ctx, t, a, "lock:{kept}")
	next := make(chan *lease.Lock, 1)
	go func() { next <- acquire(ctx, t, b, "lock:{kept}") }()
	master := servertest.Connect(t, sentinel.Master.Addr())
	check.Eventually(t, "b is in the wait queue", func() bool { return master.ZCard(ctx, "lock:{kept}:line").Val() > 0 })
	check.Must(t, sentinel.WaitReplicated(ctx))

	logf := func(s string) { t.Log(time.Now().Format("05.000"), s) }
	check.Must(t, sentinel.DetachReplica(ctx))
	lost := acquire(ctx, t, brief, "lock:{lost}")
	oldRedis, oldMySQL := raise(ctx, t, redisA, lost), raise(ctx, t, mysql, lost)
	check.Must(t, sentinel.Failover(ctx))

	logf("failed over")
	second := acquire(ctx, t, b, "lock:{lost}")
	newRedis, newMySQL := raise(ctx, t, redisB, second), raise(ctx, t, mysql, second)
	if newRedis != oldRedis {
		t.Errorf("Redis after the failover: got the tokens %d, then %d, want the same token twice, because the failover lost nothing", oldRedis, newRedis)
	}
	if newMySQL <= oldMySQL {
		t.Errorf("MySQL after the failover: got the tokens %d, then %d, want a greater one", oldMySQL, newMySQL)
	}
	tx, err := db.BeginTx(ctx, nil)
	check.Must(t, err)
	if err := mysql.Check(ctx, tx, lost.Key(), oldMySQL); !errors.Is(err, ErrFenced) {
		t.Errorf("late write of the first holder: got error %v, want ErrFenced", err)
	}
	check.Must(t, tx.Rollback())
	logf("checked")
	<-lost.Context().Done()
	if cause := context.Cause(lost.Context()); !errors.Is(cause, lease.ErrLost) {
		t.Errorf("context of the lost lock: got cause %v, want ErrLost", cause)
	}

	logf("lost")
	check.Must(t, kept.Context().Err())
	check.Is(t, check.Err(b.TryAcquire(ctx, "lock:{kept}")), lease.ErrHeld)
	logf("releasing")
	release(ctx, t, kept)
	if l := <-next; l != nil {
		release(ctx, t, l)
	}
	logf("released")
	release(ctx, t, second)
}

// acquire retries attempts that the failover interrupts.
func acquire(ctx context.Context, t *testing.T, c *lock.Client, key string) *lease.Lock {
	for {
		l, err := c.Acquire(ctx, key)
		if err == nil {
			return l
		}
		if ctx.Err() != nil {
			t.Errorf("acquire during the failover: got error %v until the deadline, want none", err)
			return nil
		}
		t.Log("retrying:", err)
		_ = nap.For(ctx, 5*time.Millisecond)
	}
}

func release(ctx context.Context, t *testing.T, l *lease.Lock) {
	t.Helper()
	err := l.Release(ctx)
	for errors.Is(err, lease.ErrUnknown) && ctx.Err() == nil {
		err = l.Release(ctx)
	}
	check.Must(t, err)
}

func raise(ctx context.Context, t *testing.T, f fence.Issuer, l *lease.Lock) int64 {
	t.Helper()
	n, err := f.Raise(ctx, l)
	check.Must(t, err)
	return n
}
