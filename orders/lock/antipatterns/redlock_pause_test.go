package antipatterns

import (
	"testing"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/redlock"
)

// A holder may pause between checking its context and writing, and does not notice the pause. A
// lock on several masters does not prevent this.
func TestAntipatternRedlockPause(t *testing.T) {
	plot := func(unfenced bool) func(s *scene) error {
		return func(s *scene) error {
			r := &resource{unfenced: unfenced}
			minis, masters := s.masters(3)
			s.say("A acquires the lock on all masters")
			l, err := redlock.New(masters, config).TryAcquire(s.ctx, key)
			check.Must(s, err)
			fenceA := r.raise()
			s.say("A checks its context: not ended, %v. A pauses", l.Context().Err() == nil)
			for _, mini := range minis {
				mini.FastForward(long)
			}
			s.say("the lease ends, and B acquires the lock on all masters")
			if !s.acquires(redlock.New(masters, config)) {
				s.Fatal("client B: got the lock held, want it free")
			}
			fenceB := r.raise()
			s.say("B writes: %v", r.write(fenceB, "B"))
			s.say("A resumes and writes: %v", r.write(fenceA, "A"))
			return lastWord(r)
		}
	}
	showOutside(t, plot(true), plot(false))
}
