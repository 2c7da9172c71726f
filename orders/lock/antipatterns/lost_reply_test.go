package antipatterns

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
)

// The server grants the lock to A, and the answer is lost. A's client library sends the command
// again, as it does by default.
func TestAntipatternLostReply(t *testing.T) {
	show(t, func(s *scene) error {
		s.say("A acquires the lock: SET NX. The answer is lost")
		s.rdb.SetNX(s.ctx, key, "a", long)
		s.say("A's library sends the command again")
		if !s.rdb.SetNX(s.ctx, key, "a", long).Val() {
			return errors.New("A finds the lock held and gives up; the lock has no holder for a whole lease")
		}
		return nil
	}, func(s *scene) error {
		a := s.ours()
		repeated := &twice{}
		s.rdb.AddHook(repeated)
		s.say("A acquires the lock. The answer is lost, and the library sends the script again")
		if !s.acquires(a) {
			return errors.New("A finds the lock held")
		}
		if repeated.n == 0 {
			s.Fatal("script: got no repetition, want it sent twice")
		}
		return nil
	})
}

// twice sends every script twice, as go-redis does when the first answer is lost.
type twice struct{ n int }

func (t *twice) DialHook(next redis.DialHook) redis.DialHook { return next }
func (t *twice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := next(ctx, cmd); err != nil {
			return err
		}
		t.n++
		return next(ctx, cmd)
	}
}
func (t *twice) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
