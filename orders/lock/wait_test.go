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

// far has every timer far away: only a message can hand the lock over.
var far = lease.Config{Lease: time.Hour, Timeout: soon}

// inLine is how many wait for key, as the server knows.
func inLine(t *testing.T, s server, key string) int {
	return int(s.connect(t).ZCard(check.Context(t), onredis.Keys(key)[1]).Val())
}

// A release hands the lock over in the same step, in the order of arrival, and
// nobody asks again: one question and one release for each.
func TestHandedOverInOrder(t *testing.T) {
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
			check.Eventually(t, "in line", func() bool { return inLine(t, s, "lock:{sku}") == i+1 })
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
			return fmt.Errorf("served in order %v", order)
		}
		for _, n := range asked {
			if n.Load() != 1 {
				return fmt.Errorf("asked %d times for one lock", n.Load())
			}
		}
		if n := rdb.Exists(ctx, onredis.Keys("lock:{sku}")...).Val(); n != 0 {
			return fmt.Errorf("%d keys left behind", n)
		}
		return nil
	}).run(t, twins{
		"release that only deletes": func(sc *onredis.Scripts) {
			sc.Release = redis.NewScript(onredis.HandOverSource + `redis.call('DEL', KEYS[1]) leave_queue(KEYS[2], KEYS[3], ARGV[1]) return 1`)
		},
		"the last in line first": func(sc *onredis.Scripts) {
			sc.Release = redis.NewScript(replace(onredis.HandOverSource, "'ZRANGE'", "'ZREVRANGE'") + onredis.ReleaseSource)
		},
		"a lock handed over without a word": func(sc *onredis.Scripts) {
			sc.Release = redis.NewScript(replace(onredis.HandOverSource, "redis.call('PUBLISH', channel, token .. ' ' .. ask)", "1") + onredis.ReleaseSource)
		},
	})
}

// A process in the line is killed: nobody hears its messages, and the next one
// has the lock at once. One that lives but doesn't hear keeps its place.
func TestDeadWaiter(t *testing.T) {
	examination(func(t *testing.T, s server, sc onredis.Scripts) error {
		ctx := check.Context(t)
		first, dead, next := s.client(t, far, sc), s.idle(t, far), s.client(t, far, sc)
		listening(t, next)
		l, err := first.TryAcquire(ctx, "lock:{sku}")
		if err != nil {
			return err
		}
		// What a killed process leaves: a place in line, and no subscription.
		gone := attempt{Call: &lease.Call{Leases: dead.leases, Ctx: ctx, Key: "lock:{sku}"}, client: dead, token: "gone"}
		if _, _, err := gone.ask(dead.waits.channel); !errors.Is(err, lease.ErrHeld) {
			return err
		}
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		got := make(chan error, 1)
		go func() { _, err := next.Acquire(waiting, "lock:{sku}"); got <- err }()
		check.Eventually(t, "in line", func() bool { return inLine(t, s, "lock:{sku}") == 2 })
		if err := l.Release(ctx); err != nil {
			return err
		}
		defer time.AfterFunc(s.patience, cancel).Stop()
		if err := <-got; err != nil {
			return err
		}
		if n := inLine(t, s, "lock:{sku}"); n != 1 {
			return fmt.Errorf("%d in line, want the one that was passed over", n)
		}
		return nil
	}).run(t, twins{
		"a lock handed to whoever is first, heard or not": func(sc *onredis.Scripts) {
			sc.Release = redis.NewScript(replace(onredis.HandOverSource, "receivers > 0 or", "true or") + onredis.ReleaseSource)
		},
	})
}

// A waiter that has not been heard of until its deadline, by the server's clock,
// is pruned, whether or not messages can tell.
func TestSilentWaiterIsPruned(t *testing.T) {
	examination(func(t *testing.T, s server, sc onredis.Scripts) error {
		ctx, key := check.Context(t), "lock:{sku}"
		brief := lease.Config{Lease: 10 * time.Millisecond, Drift: time.Millisecond, Timeout: 9 * time.Millisecond}
		holder, dead := s.client(t, far, sc), s.idle(t, brief)
		holder.store.Extra, dead.store.Extra = "0", "0"
		dead.store.Asking.Timeout, dead.store.Asking.Group.MaxWait = soon, soon // only the lease is short
		l, err := holder.TryAcquire(ctx, key)
		if err != nil {
			return err
		}
		// The one that lives keeps the line alive, long after the other's deadline,
		// but stands behind it.
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
		check.Eventually(t, "deadline", func() bool { return rdb.Time(ctx).Val().Sub(start) > 20*time.Millisecond })
		if err := l.Release(ctx); err != nil {
			return err
		}
		if got := rdb.Get(ctx, key).Val(); got != "alive" {
			return fmt.Errorf("handed to %q", got)
		}
		return nil
	}).run(t, twins{
		"deadlines that nobody looks at": func(sc *onredis.Scripts) {
			sc.Release = redis.NewScript(replace(onredis.HandOverSource, "tonumber(deadline) < now", "false") + onredis.ReleaseSource)
		},
	})
}

// The connection for messages breaks, and the release happens meanwhile: to be
// connected again is reason enough to ask.
func TestGrantMissed(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		p := newWire(t, s)
		waiter := p.client(t, far)
		listening(t, waiter)
		hearsOfRelease(t, s, waiter, func() {}, p.Cut, p.Restore)
	})
}

// The connection for messages is dead without a sign, from the subscription on:
// the silence is noticed, and a new one tells to ask.
func TestSilentConnection(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		p := newWire(t, s)
		waiter := p.idle(t, far)
		waiter.waits.heartbeat = 100 * time.Millisecond
		lost := p.MuteAnswers(1, with(waiter.waits.channel))
		hearsOfRelease(t, s, waiter, func() {
			run(t, waiter)
			check.Eventually(t, "subscription swallowed", func() bool { return lost() > 0 })
		}, func() {}, func() {})
	})
}

// hearsOfRelease has another hold the lock and release it while the waiter is in
// line, and wants the waiter to have it then.
func hearsOfRelease(t *testing.T, s server, waiter *Client, once, before, after func()) {
	t.Helper()
	ctx := check.Context(t)
	l, err := s.client(t, far).TryAcquire(ctx, "lock:{sku}")
	check.Must(t, err)
	once()
	next := make(chan error, 1)
	go func() { next <- check.Err(waiter.Acquire(ctx, "lock:{sku}")) }()
	check.Eventually(t, "in line", func() bool { return inLine(t, s, "lock:{sku}") == 1 })
	before()
	check.Must(t, l.Release(ctx))
	after()
	check.OK(t, check.Receive(t, "the waiter receives the lock", next))
}

// A message that comes late tells of a lease that began early: it is counted
// from the question that was granted, not from the message.
func TestGrantCountsFromTheQuestion(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		ctx := check.Context(t)
		var renewed atomic.Int64
		hooked := far
		hooked.Hooks.Renewed = func(context.Context, string, error) { renewed.Add(1) }
		holder, waiter := s.client(t, far), s.client(t, hooked)
		listening(t, waiter)
		l, err := holder.TryAcquire(ctx, "lock:{sku}")
		check.Must(t, err)
		got := make(chan *lease.Lock, 1)
		go func() {
			l, err := waiter.Acquire(ctx, "lock:{sku}")
			check.OK(t, err)
			got <- l
		}()
		check.Eventually(t, "in line", func() bool { return inLine(t, s, "lock:{sku}") == 1 })
		before := time.Now()
		check.Must(t, l.Release(ctx))
		<-got
		if waiter.leases.Renew(ctx, before.Add(far.Lease/3)); renewed.Load() == 0 { // a third of it is not over
			t.Error("the lease counts from after the release, when the server may have begun it earlier")
		}
	})
}

// A cancelled wait returns the cause and leaves no key and nobody's turn taken.
func TestCancelledWait(t *testing.T) {
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
		check.Eventually(t, "all wait", func() bool {
			return callers.Load() == 10 && inLine(t, s, "lock:{sku}") == 1
		})
		cancel(tired)
		all.Wait()

		rdb := s.connect(t)
		if holder := rdb.Get(ctx, "lock:{sku}").Val(); holder != l.Token() {
			t.Errorf("key holds %q, want the holder's token", holder)
		}
		if n := inLine(t, s, "lock:{sku}"); n != 0 {
			t.Errorf("%d still in line", n)
		}
		check.Must(t, l.Release(ctx))
		if keys := rdb.Keys(ctx, "*").Val(); len(keys) != 0 {
			t.Errorf("left behind: %v", keys)
		}
		l, err = b.Acquire(ctx, "lock:{sku}") // its turn comes
		check.Must(t, err)
		check.Must(t, l.Release(ctx))
	})
}

// However many wait in one process, one of them is in the server's line.
func TestOneWaiterTalks(t *testing.T) {
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
					t.Error(err)
					return
				}
				check.OK(t, l.Release(ctx))
			})
		}
		check.Eventually(t, "all wait", func() bool {
			return callers.Load() == waiters && attempts.Load() == 1
		})
		check.Must(t, l.Release(ctx))
		all.Wait()
		if n := attempts.Load(); n != waiters {
			t.Errorf("%d attempts for %d waiters", n, waiters)
		}
	})
}

// counted returns a context that adds one to callers when somebody begins to wait for
// its end: an Acquire that stands in line.
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

// listening waits until c hears of releases.
func listening(t *testing.T, c *Client) {
	check.Eventually(t, "listening", func() bool { return Listens(c) })
}

// count counts the answers to a script.
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
