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

// Another client overwrites the lock. The holder loses it at the next renewal, before its lease
// ends.
func TestRenewalDetectsStolenLock(t *testing.T) {
	const key, leased = "lock:{sku}", 6 * time.Second
	examination(func(t *testing.T, s server, sc onredis.Scripts) error {
		ctx := check.Context(t)
		rdb := s.connect(t)
		c := s.client(t, lease.Config{Lease: leased}, sc)
		l, err := c.TryAcquire(ctx, key)
		if err != nil {
			return err
		}
		if err := rdb.Set(ctx, key, "thief", 0).Err(); err != nil {
			return err
		}
		c.leases.Renew(ctx, time.Now().Add(leased/3))
		if err := l.Context().Err(); err == nil {
			return errors.New("context after a renewal that found another token: got it alive, want it ended")
		}
		if cause := context.Cause(l.Context()); !errors.Is(cause, lease.ErrLost) || !errors.Is(cause, lease.ErrNotMine) {
			return fmt.Errorf("context of the stolen lock: got cause %v, want lease.ErrLost and lease.ErrNotMine", cause)
		}
		if err := l.Release(ctx); !errors.Is(err, lease.ErrNotMine) {
			return fmt.Errorf("release: got error %v, want lease.ErrNotMine", err)
		}
		if holder := rdb.Get(ctx, key).Val(); holder != "thief" {
			return fmt.Errorf("key of the lock: got %q, want the thief's token", holder)
		}
		return nil
	}).run(t, twins{
		"renewal that does not compare the token": func(sc *onredis.Scripts) {
			sc.Renew = redis.NewScript(`redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1`)
		},
	})
}

// Redis loses the key. The lock is lost, and the renewal does not create the key again.
func TestRenewalDetectsMissingKey(t *testing.T) {
	const key, leased = "lock:{sku}", 6 * time.Second
	examination(func(t *testing.T, s server, sc onredis.Scripts) error {
		ctx := check.Context(t)
		rdb := s.connect(t)
		c := s.client(t, lease.Config{Lease: leased}, sc)
		l, err := c.TryAcquire(ctx, key)
		if err != nil {
			return err
		}
		if err := rdb.FlushAll(ctx).Err(); err != nil {
			return err
		}
		c.leases.Renew(ctx, time.Now().Add(leased/3))
		if cause := context.Cause(l.Context()); !errors.Is(cause, lease.ErrLost) || !errors.Is(cause, lease.ErrExpired) {
			return fmt.Errorf("context of the lock without a key: got cause %v, want lease.ErrLost and lease.ErrExpired", cause)
		}
		if n := rdb.Exists(ctx, key).Val(); n != 0 {
			return errors.New("renewal of a missing key: got the key again, want none")
		}
		if err := l.Release(ctx); !errors.Is(err, lease.ErrExpired) {
			return fmt.Errorf("release: got error %v, want lease.ErrExpired", err)
		}
		return nil
	}).run(t, twins{
		"renewal that acquires the lock again": func(sc *onredis.Scripts) {
			sc.Renew = redis.NewScript(`redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1`)
		},
	})
}

// Renewals receive no answer. The lock's context ends while the server still has the key.
func TestContextEndsBeforeLease(t *testing.T) {
	const key, leased = "lock:{sku}", 6 * time.Second
	loseRenewals := func(t *testing.T, s server, drift time.Duration) error {
		ctx := check.Context(t)
		p := newWire(t, s)
		c := p.idle(t, lease.Config{Lease: leased, Timeout: leased / 3})
		c.leases.Drift = drift
		l, err := c.TryAcquire(ctx, key)
		if err != nil {
			return err
		}
		p.Cut()
		c.leases.Renew(ctx, time.Now().Add(leased/3))
		inTime := l.Context().Err() == nil // on a busy machine, the renewal may fail too late
		check.Receive(t, "the context ends", l.Context().Done())
		if holder := s.connect(t).Get(ctx, key).Val(); holder != l.Token() {
			return errors.New("context and lease: got the lease ended first, want the context ended first")
		}
		if cause := context.Cause(l.Context()); !errors.Is(cause, lease.ErrLost) || inTime && !errors.Is(cause, lease.ErrRenewal) {
			return fmt.Errorf("context without renewals: got cause %v, want lease.ErrLost and lease.ErrRenewal", cause)
		}
		return nil
	}
	eachStore(t, func(t *testing.T, s server) {
		check.OK(t, loseRenewals(t, s, leased/2-leased/20))
		check.Must(t, s.connect(t).FlushAll(check.Context(t)).Err())
		if err := loseRenewals(t, s, -leased/2); err == nil {
			t.Error("check with a deadline after the end of the lease: it passed, want a failure")
		}
	})
}

// If the server has lost its scripts, renewals and releases send the source again.
func TestMissingScriptsAreSentAgain(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		ctx, rdb := check.Context(t), s.connect(t)
		c := s.client(t, lease.Config{})
		l, err := c.TryAcquire(ctx, "lock:{sku}")
		check.Must(t, err)
		if l.Key() != "lock:{sku}" || l.Token() == "" {
			t.Errorf("acquired lock: got key %q and token %q, want lock:{sku} and a token", l.Key(), l.Token())
		}
		check.Must(t, rdb.ScriptFlush(ctx).Err())
		c.leases.Renew(ctx, time.Now().Add(c.leases.Lease/3))
		if err := l.Context().Err(); err != nil {
			t.Fatalf("lock after missing scripts: got it lost with cause %v, want it held", context.Cause(l.Context()))
		}
		check.Must(t, rdb.ScriptFlush(ctx).Err())
		check.Must(t, l.Release(ctx))
	})
}
