package lock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// An examination must pass with the correct scripts and fail with each broken twin. s is an
// empty store.
type examination func(t *testing.T, s server, sc onredis.Scripts) error

// twins maps a description of a fault to a function that breaks the scripts.
type twins map[string]func(*onredis.Scripts)

func (x examination) run(t *testing.T, broken twins) {
	eachStore(t, func(t *testing.T, s server) {
		check.OK(t, x(t, s, onredis.NewScripts()))
		for what, spoil := range broken {
			check.Must(t, s.connect(t).FlushAll(check.Context(t)).Err())
			sc := onredis.NewScripts()
			spoil(&sc)
			s.patience = 500 * time.Millisecond // a broken twin never produces the event
			if err := x(t, s, sc); err == nil {
				t.Errorf("broken twin %q: it passed, want a failure", what)
			} else {
				t.Logf("%s: %v", what, err)
			}
		}
	})
}

// A's lease ends, B acquires the lock, and A releases it: B must keep the lock.
func TestLateReleaseKeepsNextHolder(t *testing.T) {
	const key = "lock:{sku}"
	examination(func(t *testing.T, s server, sc onredis.Scripts) error {
		ctx := check.Context(t)
		a, b := s.idle(t, lease.Config{}), s.client(t, lease.Config{})
		a.store.Scripts = sc

		la, err := a.TryAcquire(ctx, key)
		if err != nil {
			return err
		}
		if err := s.connect(t).PExpire(ctx, key, time.Millisecond).Err(); err != nil {
			return err
		}
		lb, err := b.Acquire(ctx, key)
		if err != nil {
			return err
		}
		if err := la.Release(ctx); !errors.Is(err, lease.ErrNotMine) {
			return fmt.Errorf("release after another acquire: got error %v, want lease.ErrNotMine", err)
		}
		if _, err := b.TryAcquire(ctx, key); !errors.Is(err, lease.ErrHeld) {
			return fmt.Errorf("third acquire: got error %v, want lease.ErrHeld", err)
		}
		return lb.Release(ctx)
	}).run(t, twins{
		"release that deletes any lock": func(sc *onredis.Scripts) {
			sc.Release = redis.NewScript(`return redis.call('DEL', KEYS[1])`)
		},
		"release that deletes any held lock and reports success": func(sc *onredis.Scripts) {
			sc.Release = redis.NewScript(`if redis.call('GET', KEYS[1]) then redis.call('DEL', KEYS[1]) return 1 end return 0`)
		},
		"release that always reports success": func(sc *onredis.Scripts) {
			sc.Release = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1`)
		},
	})
}

// If a holder crashes, a waiter acquires the lock when the lease ends, without a message, and
// after the first holder's context has ended.
func TestWaiterSucceedsCrashedHolder(t *testing.T) {
	examination(func(t *testing.T, s server, sc onredis.Scripts) error {
		return takeover(t, s, sc, deadLease/10)
	}).run(t, twins{
		"acquire that does not return the remaining time": func(sc *onredis.Scripts) {
			sc.Acquire = redis.NewScript(`return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 0 or -1`)
		},
	})
}

func TestTakeoverDetectsContextPastLease(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		if err := takeover(t, s, onredis.NewScripts(), -20*deadLease); err == nil {
			t.Error("takeover with a context that outlives the lease: got no failure, want one")
		}
	})
}

const deadLease = 4 * time.Second

func takeover(t *testing.T, s server, sc onredis.Scripts, drift time.Duration) error {
	dead := s.idle(t, lease.Config{Lease: deadLease})
	dead.leases.Drift = drift
	heir := s.client(t, far, sc) // a long lease: heir asks again only because the holder's lease ends
	old, err := dead.TryAcquire(check.Context(t), "lock:{sku}")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(check.Context(t), deadLease+s.patience)
	defer cancel()
	l, err := heir.Acquire(ctx, "lock:{sku}")
	if err != nil {
		return err
	}
	defer func() { _ = l.Release(ctx) }()
	if err := old.Context().Err(); err == nil {
		return errors.New("two holders: got the first context still alive, want it ended")
	}
	if cause := context.Cause(old.Context()); !errors.Is(cause, lease.ErrLost) || !errors.Is(cause, lease.ErrExpired) {
		return fmt.Errorf("context of the first holder: got cause %v, want lease.ErrLost and lease.ErrExpired", cause)
	}
	return nil
}
