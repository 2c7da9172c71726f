package antipatterns

import (
	"testing"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/redlock"
)

// However many masters granted the lock: a holder that stops between looking and
// writing does not know for how long it stopped.
func TestAntipatternRedlockPause(t *testing.T) {
	plot := func(unfenced bool) func(s *scene) error {
		return func(s *scene) error {
			r := &resource{unfenced: unfenced}
			minis, masters := s.masters(3)
			s.say("A takes the lock on all masters")
			l, err := redlock.New(masters, config).TryAcquire(s.ctx, key)
			check.Must(s, err)
			fenceA := r.raise()
			s.say("A looks: its context is alive, %v. It stops", l.Context().Err() == nil)
			for _, mini := range minis {
				mini.FastForward(long)
			}
			s.say("B takes the lock on all masters")
			if !s.enters(redlock.New(masters, config)) {
				s.Fatal("not free")
			}
			fenceB := r.raise()
			s.say("B writes: %v", r.write(fenceB, "B"))
			s.say("A goes on and writes: %v", r.write(fenceA, "A"))
			return lastWord(r)
		}
	}
	showOutside(t, plot(true), plot(false))
}
