package antipatterns

import (
	"errors"
	"testing"
	"time"

	"flashsale/orders/lock"
	"flashsale/orders/lock/lease"

	"flashsale/loadtest/servers/servertest/check"
)

// The lease ends before the work does, because the holder pauses: for garbage collection, a
// suspended machine or a slow disk. This can happen with every lock. Ours ends the context of
// the work, and the resource rejects a write that comes too late for that.
func TestAntipatternShortLease(t *testing.T) {
	show(t, func(s *scene) error {
		r := &resource{unfenced: true}
		s.say("A acquires the lock")
		s.rdb.SetNX(s.ctx, key, "a", long)
		s.say("A checks that it holds the lock: %v. A pauses before it writes", s.rdb.Get(s.ctx, key).Val() == "a")
		s.pass(long)
		s.say("B acquires the lock: %v", s.rdb.SetNX(s.ctx, key, "b", long).Val())
		s.say("B writes: %v", r.write(0, "B"))
		s.say("A resumes and writes: %v", r.write(0, "A"))
		return lastWord(r)
	}, func(s *scene) error {
		const moment = time.Second // passes on the client's clock and on the server's
		r := &resource{}
		short := lock.New(s.rdb, lease.Config{Lease: moment, Timeout: moment * 3 / 4})
		s.say("A acquires the lock, and receives a token from the resource")
		a, err := short.TryAcquire(s.ctx, key)
		check.Must(s, err)
		fenceA := r.raise()
		s.say("A checks its context: not ended, %v. A pauses before it writes", a.Context().Err() == nil)
		<-a.Context().Done()
		s.pass(moment)
		s.say("B acquires the lock, and receives a token")
		_, err = s.ours().TryAcquire(s.ctx, key)
		check.Must(s, err)
		fenceB := r.raise()
		check.Must(s, r.write(fenceB, "B"))
		s.say("A resumes and writes: %v", r.write(fenceA, "A"))
		s.say("A checks its context: ended")
		if a.Context().Err() == nil {
			return errors.New("A's context has not ended with its lease")
		}
		return lastWord(r)
	})
}

func lastWord(r *resource) error {
	if r.written[len(r.written)-1] != "B" {
		return errors.New("A, whose lock had ended, has overwritten B's work")
	}
	return nil
}
