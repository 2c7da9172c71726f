package antipatterns

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
)

// The release compares the value under WATCH, and deletes the key in a MULTI that fails if the
// key has changed. That is safe, but the holder's own renewal also changes the key.
func TestAntipatternWatchRelease(t *testing.T) {
	show(t, func(s *scene) error {
		s.say("A acquires the lock")
		s.rdb.SetNX(s.ctx, key, "a", long)
		err := s.rdb.Watch(s.ctx, func(tx *redis.Tx) error {
			s.say("A releases the lock: WATCH; the value is A's: %v", tx.Get(s.ctx, key).Val() == "a")
			s.say("A's renewal extends the lease: PEXPIRE")
			s.rdb.PExpire(s.ctx, key, long)
			_, err := tx.TxPipelined(s.ctx, func(p redis.Pipeliner) error {
				return p.Del(s.ctx, key).Err()
			})
			return err
		}, key)
		s.say("EXEC: %v", err)
		if s.mini.Exists(key) {
			return errors.New("the lock stays without a holder")
		}
		return nil
	}, func(s *scene) error {
		a := s.ours()
		s.say("A acquires the lock")
		l, err := a.TryAcquire(s.ctx, key)
		check.Must(s, err)
		s.say("A's renewal extends the lease just before the release")
		s.rdb.PExpire(s.ctx, key, long)
		check.Must(s, l.Release(s.ctx))
		if s.mini.Exists(key) {
			return errors.New("the lock stays")
		}
		return nil
	})
}

// WATCH applies to one connection. With a connection pool, the following commands may use
// another connection, to which the WATCH does not apply.
func TestAntipatternWatchOnAnotherConnection(t *testing.T) {
	show(t, func(s *scene) error {
		first, second := s.rdb.Conn(), s.rdb.Conn()
		defer first.Close()
		defer second.Close()
		s.say("A acquires the lock")
		s.rdb.SetNX(s.ctx, key, "a", long)
		s.say("A releases the lock: WATCH on one connection of its pool")
		check.Must(s, first.Do(s.ctx, "WATCH", key).Err())
		s.say("A compares the value: it is A's, %v", second.Get(s.ctx, key).Val() == "a")
		s.pass(long)
		s.say("B acquires the lock")
		s.rdb.SetNX(s.ctx, key, "b", long)
		s.say("A resumes: MULTI, DEL, EXEC on another connection of its pool")
		_, err := second.TxPipelined(s.ctx, func(p redis.Pipeliner) error { return p.Del(s.ctx, key).Err() })
		check.Must(s, err)
		s.say("C tries to acquire the lock while B holds it")
		if s.rdb.SetNX(s.ctx, key, "c", time.Minute).Val() {
			return errBoth
		}
		return nil
	}, oursOutlived)
}
