package antipatterns

import (
	"context"
	"errors"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

// The caller's context ends just after the server has granted the lock. The client uses the
// same context to release the lock, so the release fails.
func TestAntipatternDeadContext(t *testing.T) {
	show(t, func(s *scene) error {
		ctx, cancel := context.WithCancel(s.ctx)
		s.say("A acquires the lock: SET NX")
		s.rdb.SetNX(ctx, key, "a", long)
		s.say("A's caller cancels the context")
		cancel()
		s.say("A releases the lock with that context: %v", s.rdb.Del(ctx, key).Err())
		if s.mini.Exists(key) {
			return errors.New("the lock stays for its whole lease, without a holder")
		}
		return nil
	}, func(s *scene) error {
		ctx, cancel := context.WithCancel(s.ctx)
		s.say("A acquires the lock")
		l, err := s.ours().TryAcquire(ctx, key)
		check.Must(s, err)
		s.say("A's caller cancels the context")
		cancel()
		s.say("A releases the lock with that context; Release ignores its end")
		check.Must(s, l.Release(ctx))
		if s.mini.Exists(key) {
			return errors.New("the lock stays")
		}
		return nil
	})
}
