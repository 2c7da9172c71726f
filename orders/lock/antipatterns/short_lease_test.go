package antipatterns

import (
	"errors"
	"testing"
	"time"

	"flashsale/orders/lock"
	"flashsale/orders/lock/lease"

	"flashsale/loadtest/servers/servertest/check"
)

// The lease ends before the work does, because the holder stopped for a moment:
// a garbage collection, a suspended machine, a slow disk. This happens to every
// lock. Ours ends the work's context; what is past that, the resource refuses.
func TestAntipatternShortLease(t *testing.T) {
	show(t, func(s *scene) error {
		r := &resource{unfenced: true}
		s.say("A takes the lock")
		s.rdb.SetNX(s.ctx, key, "a", long)
		s.say("A looks: the lock is its own, %v. It is about to write, and stops", s.rdb.Get(s.ctx, key).Val() == "a")
		s.pass(long)
		s.say("B takes the lock: %v", s.rdb.SetNX(s.ctx, key, "b", long).Val())
		s.say("B writes: %v", r.write(0, "B"))
		s.say("A goes on and writes: %v", r.write(0, "A"))
		return lastWord(r)
	}, func(s *scene) error {
		const moment = time.Second // of everybody's time, not only the server's
		r := &resource{}
		short := lock.New(s.rdb, lease.Config{Lease: moment, Timeout: moment * 3 / 4})
		s.say("A takes the lock, and a token from the resource")
		a, err := short.TryAcquire(s.ctx, key)
		check.Must(s, err)
		fenceA := r.raise()
		s.say("A looks: its context is alive, %v. It is about to write, and stops", a.Context().Err() == nil)
		<-a.Context().Done()
		s.pass(moment)
		s.say("B takes the lock, and a token")
		_, err = s.ours().TryAcquire(s.ctx, key)
		check.Must(s, err)
		fenceB := r.raise()
		check.Must(s, r.write(fenceB, "B"))
		s.say("A goes on and writes: %v", r.write(fenceA, "A"))
		s.say("A sees that its context has ended meanwhile")
		if a.Context().Err() == nil {
			return errors.New("A still believes in its lock")
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
