package antipatterns

import (
	"context"
	"errors"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

// The caller's time is up just after the server has taken the lock, and the
// cleaning is done with the caller's context.
func TestAntipatternDeadContext(t *testing.T) {
	show(t, func(s *scene) error {
		ctx, cancel := context.WithCancel(s.ctx)
		s.say("A: SET NX, and is done")
		s.rdb.SetNX(ctx, key, "a", long)
		s.say("A's caller hangs up")
		cancel()
		s.say("A releases with its caller's context: %v", s.rdb.Del(ctx, key).Err())
		if s.mini.Exists(key) {
			return errors.New("the lock stays for its whole lease, and nobody holds it")
		}
		return nil
	}, func(s *scene) error {
		ctx, cancel := context.WithCancel(s.ctx)
		s.say("A takes the lock")
		l, err := s.ours().TryAcquire(ctx, key)
		check.Must(s, err)
		s.say("A's caller hangs up")
		cancel()
		s.say("A releases with its caller's context, which is not asked")
		check.Must(s, l.Release(ctx))
		if s.mini.Exists(key) {
			return errors.New("the lock stays")
		}
		return nil
	})
}
