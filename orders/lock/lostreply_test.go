package lock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// know loads the scripts into the server. Each request then contains a script's hash, by which
// the wire recognizes it.
func know(t *testing.T, s server, sc onredis.Scripts) {
	for _, script := range []*redis.Script{sc.Acquire, sc.Renew, sc.Release} {
		check.Must(t, script.Load(check.Context(t), s.connect(t)).Err())
	}
}

// All answers to an acquire are lost. The call returns ErrUnknown, and the key that the script
// has set is deleted.
func TestLostAcquireLeavesNoKey(t *testing.T) {
	t.Parallel()
	for _, mute := range []bool{false, true} {
		t.Run(fmt.Sprintf("mute=%v", mute), func(t *testing.T) {
			examination(func(t *testing.T, s server, sc onredis.Scripts) error {
				know(t, s, sc)
				p := newWire(t, s)
				c := p.client(t, lease.Config{Lease: 20 * time.Second, Timeout: 2 * time.Second}, sc)
				lose := p.LoseAnswers
				if mute {
					lose = p.MuteAnswers
				}
				lost := lose(math.MaxInt, with(sc.Acquire.Hash()))
				ctx, cancel := context.WithCancel(check.Context(t))
				defer cancel()
				acquired := make(chan error, 1)
				go func() { _, err := c.Acquire(ctx, "lock:{sku}"); acquired <- err }()
				check.Eventually(t, "an answer is lost", func() bool { return lost() > 0 })
				if mute {
					cancel()
				}
				err := <-acquired
				if !errors.Is(err, lease.ErrUnknown) {
					return fmt.Errorf("acquire: got error %v, want lease.ErrUnknown", err)
				}
				if mute && !errors.Is(err, context.Canceled) {
					return fmt.Errorf("acquire: got error %v, want also context.Canceled", err)
				}
				if left := s.connect(t).PTTL(check.Context(t), "lock:{sku}").Val(); left > 0 {
					return fmt.Errorf("key after the lost acquire: got it left for %v, want it deleted", left)
				}
				return nil
			}).run(t, twins{
				"release that does nothing": func(sc *onredis.Scripts) {
					sc.Release = redis.NewScript(`return 1`)
				},
			})
		})
	}
}

// The answer to a release is lost, and another client acquires the lock before the release is
// repeated. The release returns nil, because it has released the lock.
func TestReleaseSucceedsAfterLostReply(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		for _, taken := range []bool{false, true} {
			ctx := check.Context(t)
			p := newWire(t, s)
			c := p.client(t, lease.Config{})
			know(t, s, c.store.Scripts)
			l, err := c.TryAcquire(ctx, "lock:{sku}")
			check.Must(t, err)
			if taken {
				c.store.RDB.AddHook(afterFailure(func() {
					_ = s.connect(t).SetNX(ctx, "lock:{sku}", "next", time.Minute).Err()
				}))
			}
			lost := p.LoseAnswers(1, with(c.store.Scripts.Release.Hash()))
			if err := l.Release(ctx); err != nil {
				t.Errorf("release, taken=%v: got error %v, want none", taken, err)
			}
			if lost() != 1 {
				t.Fatalf("lost answers, taken=%v: got %d, want 1", taken, lost())
			}
			holder := s.connect(t).Get(ctx, "lock:{sku}").Val()
			if want := map[bool]string{true: "next"}[taken]; holder != want {
				t.Errorf("key of the lock: got %q, want %q", holder, want)
			}
		}

		// The broken twin: if go-redis repeats the release, the repetition finds no lock.
		ctx := check.Context(t)
		p := newWire(t, s)
		rdb, sc := p.connect(t), onredis.NewScripts()
		check.Must(t, s.connect(t).Set(ctx, "lock:{twin}", "token", time.Minute).Err())
		p.LoseAnswers(1, with(sc.Release.Hash()))
		n, err := sc.Release.Run(ctx, rdb, onredis.Keys("lock:{twin}"), "token", 1000, "1").Int64()
		if err != nil || onredis.ReplyError(n, nil) == nil {
			t.Errorf("release repeated by go-redis: got %d, error %v, want a reply that is an error", n, err)
		}
	})
}

// If all answers to a release are lost, Release returns ErrUnknown. A later call succeeds.
func TestReleaseCanBeRepeated(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		ctx := check.Context(t)
		p := newWire(t, s)
		c := p.client(t, lease.Config{})
		know(t, s, c.store.Scripts)
		l, err := c.TryAcquire(ctx, "lock:{sku}")
		check.Must(t, err)
		var broken atomic.Bool
		broken.Store(true)
		released := with(c.store.Scripts.Release.Hash())
		p.LoseAnswers(math.MaxInt, func(sent []byte) bool { return broken.Load() && released(sent) })
		check.Is(t, l.Release(ctx), lease.ErrUnknown)
		if err := l.Context().Err(); err == nil {
			t.Error("context after Release: got it alive, want it ended")
		}
		broken.Store(false)
		if err := l.Release(ctx); err != nil {
			t.Errorf("second release: got error %v, want nil", err)
		}
	})
}

// afterFailure is a go-redis hook that runs after each command whose answer was lost.
type afterFailure func()

func (f afterFailure) DialHook(next redis.DialHook) redis.DialHook { return next }
func (f afterFailure) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil && !onredis.IsReply(err) {
			f()
		}
		return err
	}
}
func (f afterFailure) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
