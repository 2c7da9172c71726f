package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// far has a lease so long that no timer fires: only a message can hand the lock over.
var far = lease.Config{Lease: time.Hour, Timeout: soon}

// queueLen returns the length of the wait queue of key on the server.
func queueLen(t *testing.T, s server, key string) int {
	return int(s.connect(t).ZCard(check.Context(t), onredis.Keys(key)[1]).Val())
}

// A release hands the lock to the waiters in order of arrival. Each waiter sends one request
// to acquire and one to release.
func TestReleaseHandsOverInOrder(t *testing.T) {
	const waiters = 5
	examination(func(t *testing.T, s server, sc onredis.Scripts) error {
		ctx, rdb := check.Context(t), s.connect(t)
		first := s.client(t, far, sc)
		l, err := first.TryAcquire(ctx, "lock:{sku}")
		if err != nil {
			return err
		}
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		var mu sync.Mutex
		var order []int
		var asked []*atomic.Int64
		errs := make(chan error, waiters)
		for i := range waiters {
			c := s.client(t, far, sc)
			listening(t, c)
			asked = append(asked, count(c.store.RDB, sc.Acquire))
			go func() {
				l, err := c.Acquire(waiting, "lock:{sku}")
				if err == nil {
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					err = l.Release(ctx)
				}
				errs <- err
			}()
			check.Eventually(t, "the waiter is in the queue", func() bool { return queueLen(t, s, "lock:{sku}") == i+1 })
		}
		if err := l.Release(ctx); err != nil {
			return err
		}
		defer time.AfterFunc(s.patience, cancel).Stop()
		for range waiters {
			err = errors.Join(err, <-errs)
		}
		if err != nil {
			return err
		}
		if !slices.Equal(order, []int{0, 1, 2, 3, 4}) {
			return fmt.Errorf("waiters: got the order %v, want the order of arrival", order)
		}
		for _, n := range asked {
			if n.Load() != 1 {
				return fmt.Errorf("waiter: got %d requests for one lock, want 1", n.Load())
			}
		}
		if n := rdb.Exists(ctx, onredis.Keys("lock:{sku}")...).Val(); n != 0 {
			return fmt.Errorf("keys after the test: got %d, want none", n)
		}
		return nil
	}).run(t, twins{
		"release that only deletes": func(sc *onredis.Scripts) {
			sc.Release = redis.NewScript(onredis.HandOverSource + `redis.call('DEL', KEYS[1]) leave_queue(KEYS[2], KEYS[3], ARGV[1]) return 1`)
		},
		"release that serves the last waiter first": func(sc *onredis.Scripts) {
			sc.Release = redis.NewScript(replace(onredis.HandOverSource, "'ZRANGE'", "'ZREVRANGE'") + onredis.ReleaseSource)
		},
		"release that sends no message": func(sc *onredis.Scripts) {
			sc.Release = redis.NewScript(replace(onredis.HandOverSource, "redis.pcall('PUBLISH', channel, token .. ' ' .. ask)", "1") + onredis.ReleaseSource)
		},
	})
}

// If a waiter's process has crashed, no client receives its message, and the next waiter
// acquires the lock at once. The first waiter keeps its place, because it may be alive.
func TestReleaseSkipsCrashedWaiter(t *testing.T) {
	examination(func(t *testing.T, s server, sc onredis.Scripts) error {
		ctx := check.Context(t)
		first, dead, next := s.client(t, far, sc), s.idle(t, far), s.client(t, far, sc)
		listening(t, next)
		l, err := first.TryAcquire(ctx, "lock:{sku}")
		if err != nil {
			return err
		}
		// A crashed process leaves a place in the queue, but no subscription.
		gone := attempt{Call: &lease.Call{Leases: dead.leases, Ctx: ctx, Key: "lock:{sku}"}, client: dead, token: "gone"}
		if _, _, err := gone.ask(dead.waits.channel); !errors.Is(err, lease.ErrHeld) {
			return err
		}
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		got := make(chan error, 1)
		go func() { _, err := next.Acquire(waiting, "lock:{sku}"); got <- err }()
		check.Eventually(t, "the waiter is in the queue", func() bool { return queueLen(t, s, "lock:{sku}") == 2 })
		if err := l.Release(ctx); err != nil {
			return err
		}
		defer time.AfterFunc(s.patience, cancel).Stop()
		if err := <-got; err != nil {
			return err
		}
		if n := queueLen(t, s, "lock:{sku}"); n != 1 {
			return fmt.Errorf("wait queue: got length %d, want 1, the waiter that was skipped", n)
		}
		return nil
	}).run(t, twins{
		"release that ignores the number of receivers": func(sc *onredis.Scripts) {
			sc.Release = redis.NewScript(replace(onredis.HandOverSource, "receivers > 0 or", "true or") + onredis.ReleaseSource)
		},
	})
}

// A waiter whose deadline has passed by the server's clock is removed from the queue, even
// if the server cannot count the receivers of a message.
func TestReleaseRemovesExpiredWaiter(t *testing.T) {
	examination(func(t *testing.T, s server, sc onredis.Scripts) error {
		ctx, key := check.Context(t), "lock:{sku}"
		brief := lease.Config{Lease: 10 * time.Millisecond, Drift: time.Millisecond, Timeout: 9 * time.Millisecond}
		holder, dead := s.client(t, far, sc), s.idle(t, brief)
		holder.store.Extra, dead.store.Extra = "0", "0"
		dead.store.Asking.Timeout, dead.store.Asking.Group.MaxWait = soon, soon // a busy machine may be slow
		l, err := holder.TryAcquire(ctx, key)
		if err != nil {
			return err
		}
		// The living waiter, whose lease is long, keeps the queue from expiring. Below, the test
		// moves the living waiter behind the other waiter.
		alive := attempt{Call: &lease.Call{Leases: holder.leases, Ctx: ctx, Key: key}, client: holder, token: "alive"}
		if _, _, err := alive.ask(holder.waits.channel); !errors.Is(err, lease.ErrHeld) {
			return err
		}
		gone := attempt{Call: &lease.Call{Leases: dead.leases, Ctx: ctx, Key: key}, client: dead, token: "gone"}
		if _, _, err := gone.ask(dead.waits.channel); !errors.Is(err, lease.ErrHeld) {
			return err
		}
		rdb := s.connect(t)
		if err := rdb.ZIncrBy(ctx, onredis.Keys(key)[1], 10, "alive").Err(); err != nil {
			return err
		}
		start := rdb.Time(ctx).Val()
		check.Eventually(t, "the waiter has passed its deadline", func() bool { return rdb.Time(ctx).Val().Sub(start) > 20*time.Millisecond })
		if err := l.Release(ctx); err != nil {
			return err
		}
		if got := rdb.Get(ctx, key).Val(); got != "alive" {
			return fmt.Errorf("lock: got it handed to %q, want \"alive\"", got)
		}
		return nil
	}).run(t, twins{
		"release that ignores deadlines": func(sc *onredis.Scripts) {
			sc.Release = redis.NewScript(replace(onredis.HandOverSource, "tonumber(deadline) < now", "false") + onredis.ReleaseSource)
		},
	})
}

// A cancelled wait returns the cause, leaves no key, and frees its turn.
func TestCancelledWaitLeavesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		ctx := check.Context(t)
		a, b := s.client(t, lease.Config{}), s.client(t, lease.Config{})
		l, err := a.TryAcquire(ctx, "lock:{sku}")
		check.Must(t, err)
		tired := errors.New("tired of waiting")
		waiting, cancel := context.WithCancelCause(ctx)
		var all sync.WaitGroup
		var callers atomic.Int64
		for range 10 {
			all.Go(func() {
				check.Is(t, check.Err(b.Acquire(counted(waiting, &callers), "lock:{sku}")), tired)
			})
		}
		check.Eventually(t, "all callers wait in the queue", func() bool {
			return callers.Load() == 10 && queueLen(t, s, "lock:{sku}") == 1
		})
		cancel(tired)
		all.Wait()

		rdb := s.connect(t)
		if holder := rdb.Get(ctx, "lock:{sku}").Val(); holder != l.Token() {
			t.Errorf("key of the lock: got %q, want the holder's token", holder)
		}
		if n := queueLen(t, s, "lock:{sku}"); n != 0 {
			t.Errorf("wait queue after the cancellation: got length %d, want 0", n)
		}
		check.Must(t, l.Release(ctx))
		if keys := rdb.Keys(ctx, "*").Val(); len(keys) != 0 {
			t.Errorf("keys after the cancellation: got %v, want none", keys)
		}
		l, err = b.Acquire(ctx, "lock:{sku}") // needs a free turn
		check.Must(t, err)
		check.Must(t, l.Release(ctx))
	})
}

// If many callers of one process wait, one at a time sends a request.
func TestOneWaiterPerClientSendsRequests(t *testing.T) {
	const waiters = 200
	eachStore(t, func(t *testing.T, s server) {
		ctx := check.Context(t)
		a, b := s.client(t, far), s.client(t, far)
		listening(t, b)
		attempts := count(b.store.RDB, b.store.Scripts.Acquire)
		l, err := a.TryAcquire(ctx, "lock:{sku}")
		check.Must(t, err)
		var all sync.WaitGroup
		var callers atomic.Int64
		for range waiters {
			all.Go(func() {
				l, err := b.Acquire(counted(ctx, &callers), "lock:{sku}")
				if err != nil {
					t.Errorf("acquire in turn: got error %v, want none", err)
					return
				}
				check.OK(t, l.Release(ctx))
			})
		}
		check.Eventually(t, "all callers wait in the queue", func() bool {
			return callers.Load() == waiters && attempts.Load() == 1
		})
		check.Must(t, l.Release(ctx))
		all.Wait()
		if n := attempts.Load(); n != waiters {
			t.Errorf("waiters of one client: got %d requests for %d waiters, want one each", n, waiters)
		}
	})
}

// counted returns a context that adds one to callers when an Acquire begins to wait for its
// end.
func counted(ctx context.Context, callers *atomic.Int64) context.Context {
	return countedContext{ctx, sync.OnceFunc(func() { callers.Add(1) })}
}

type countedContext struct {
	context.Context
	waits func()
}

func (c countedContext) Done() <-chan struct{} {
	c.waits()
	return c.Context.Done()
}

// count returns a counter that increases with each answer to s.
func count(rdb redis.UniversalClient, s *redis.Script) *atomic.Int64 {
	h := &counter{hash: s.Hash()}
	rdb.AddHook(h)
	return &h.n
}

type counter struct {
	hash string
	n    atomic.Int64
}

func (h *counter) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if args := cmd.Args(); len(args) > 1 && fmt.Sprint(args[1]) == h.hash && !redis.HasErrorPrefix(err, "NOSCRIPT") {
			h.n.Add(1)
		}
		return err
	}
}
func (h *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
