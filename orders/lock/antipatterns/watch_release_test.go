package antipatterns

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
)

// WATCH the key, compare, and delete it in a MULTI that fails if it has changed:
// that is safe. But one's own watchdog changes it, too.
func TestAntipatternWatchRelease(t *testing.T) {
	show(t, func(s *scene) error {
		s.say("A takes the lock")
		s.rdb.SetNX(s.ctx, key, "a", long)
		err := s.rdb.Watch(s.ctx, func(tx *redis.Tx) error {
			s.say("A releases: WATCH, and the value is its own: %v", tx.Get(s.ctx, key).Val() == "a")
			s.say("A's own watchdog renews the lease: PEXPIRE")
			s.rdb.PExpire(s.ctx, key, long)
			_, err := tx.TxPipelined(s.ctx, func(p redis.Pipeliner) error {
				return p.Del(s.ctx, key).Err()
			})
			return err
		}, key)
		s.say("EXEC: %v", err)
		if s.mini.Exists(key) {
			return errors.New("the lock stays, and its holder has gone")
		}
		return nil
	}, func(s *scene) error {
		a := s.ours()
		s.say("A takes the lock")
		l, err := a.TryAcquire(s.ctx, key)
		check.Must(s, err)
		s.say("A's lease is renewed in the instant in which A releases")
		s.rdb.PExpire(s.ctx, key, long)
		check.Must(s, l.Release(s.ctx))
		if s.mini.Exists(key) {
			return errors.New("the lock stays")
		}
		return nil
	})
}

// WATCH belongs to a connection. With a pool, the commands after it may take
// another one, and then it guards nothing.
func TestAntipatternWatchOnAnotherConnection(t *testing.T) {
	show(t, func(s *scene) error {
		first, second := s.rdb.Conn(), s.rdb.Conn()
		defer first.Close()
		defer second.Close()
		s.say("A takes the lock")
		s.rdb.SetNX(s.ctx, key, "a", long)
		s.say("A releases: WATCH on one connection of its pool")
		check.Must(s, first.Do(s.ctx, "WATCH", key).Err())
		s.say("A compares: its own, %v", second.Get(s.ctx, key).Val() == "a")
		s.pass(long)
		s.say("B takes the lock")
		s.rdb.SetNX(s.ctx, key, "b", long)
		s.say("A goes on: MULTI, DEL, EXEC on another connection of its pool")
		_, err := second.TxPipelined(s.ctx, func(p redis.Pipeliner) error { return p.Del(s.ctx, key).Err() })
		check.Must(s, err)
		s.say("C tries, while B works")
		if s.rdb.SetNX(s.ctx, key, "c", time.Minute).Val() {
			return errBoth
		}
		return nil
	}, func(s *scene) error {
		s.say("A takes the lock")
		a, err := s.ours().TryAcquire(s.ctx, key)
		check.Must(s, err)
		s.pass(long)
		s.say("B takes the lock")
		if !s.enters(s.ours()) {
			s.Fatal("not free")
		}
		s.say("A releases by one script, on whichever connection: %v", a.Release(s.ctx))
		s.say("C tries, while B works")
		if s.enters(s.ours()) {
			return errBoth
		}
		return nil
	})
}
