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

// Another client overwrites the lock, or Redis loses it. The holder loses the lock at the next
// renewal, before its lease ends. The renewal does not change the key.
func TestRenewalDetectsLoss(t *testing.T) {
	const key, leased = "lock:{sku}", 6 * time.Second
	for how, c := range map[string]struct {
		lose         func(context.Context, *redis.Client) error
		cause        error
		holder       string // afterwards
		broken, twin string
	}{
		"stolen": {
			func(ctx context.Context, rdb *redis.Client) error { return rdb.Set(ctx, key, "thief", 0).Err() }, lease.ErrNotMine, "thief",
			"renewal that does not compare the token", `redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1`,
		},
		"missing": {
			func(ctx context.Context, rdb *redis.Client) error { return rdb.FlushAll(ctx).Err() }, lease.ErrExpired, "",
			"renewal that acquires the lock again", `redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1`,
		},
	} {
		t.Run(how, func(t *testing.T) {
			examination(func(t *testing.T, s server, sc onredis.Scripts) error {
				ctx, rdb := check.Context(t), s.connect(t)
				client := s.client(t, lease.Config{Lease: leased}, sc)
				l, err := client.TryAcquire(ctx, key)
				if err := errors.Join(err, c.lose(ctx, rdb)); err != nil {
					return err
				}
				client.leases.Renew(ctx, time.Now().Add(leased/3))
				if cause := context.Cause(l.Context()); !errors.Is(cause, lease.ErrLost) || !errors.Is(cause, c.cause) {
					return fmt.Errorf("context of the lost lock: got cause %v, want lease.ErrLost and %w", cause, c.cause)
				}
				if err := l.Release(ctx); !errors.Is(err, c.cause) {
					return fmt.Errorf("release: got error %v, want %w", err, c.cause)
				}
				if holder := rdb.Get(ctx, key).Val(); holder != c.holder {
					return fmt.Errorf("key of the lock: got %q, want %q", holder, c.holder)
				}
				return nil
			}).run(t, twins{c.broken: func(sc *onredis.Scripts) { sc.Renew = redis.NewScript(c.twin) }})
		})
	}
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
