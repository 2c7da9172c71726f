package antipatterns

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/redlock"
)

// Five masters, and a lock that a majority of them has granted. This is our own
// Redlock: it can't be mended, because each master counts on a clock of its own.
// It is no worse than one Redis, and it needs the same fence.
// (Martin Kleppmann, "How to do distributed locking", 2016.)
func TestAntipatternClockJump(t *testing.T) {
	plot := func(unfenced bool) func(s *scene) error {
		return func(s *scene) error {
			r := &resource{unfenced: unfenced}
			minis, masters := s.masters(5)
			ofA := s.clients(minis)
			a := redlock.New(ofA, config)
			b := redlock.New(masters, config)

			s.say("masters D and E are down")
			minis[3].Close()
			minis[4].Close()
			s.say("A takes the lock on A, B and C: three of five")
			if !s.enters(a) {
				s.Fatal("not free")
			}
			fenceA := r.raise()
			s.say("C's clock jumps ahead: to it the lease is over")
			minis[2].FastForward(long)
			s.say("D and E return")
			check.Must(s, ofA[3].Close()) // closes the connection on which A may still be asking D and E
			check.Must(s, ofA[4].Close())
			check.Must(s, minis[3].Restart())
			check.Must(s, minis[4].Restart())
			s.say("B takes the lock on C, D and E: three of five")
			if !s.enters(b) {
				s.Fatal("this shows nothing")
			}
			fenceB := r.raise()
			s.say("both hold it. B writes: %v", r.write(fenceB, "B"))
			s.say("A writes: %v", r.write(fenceA, "A"))
			return lastWord(r)
		}
	}
	showOutside(t, plot(true), plot(false))
}

func (s *scene) masters(n int) (minis []*miniredis.Miniredis, masters []redis.UniversalClient) {
	for range n {
		minis = append(minis, miniredis.RunT(s.T))
	}
	return minis, s.clients(minis)
}

func (s *scene) clients(minis []*miniredis.Miniredis) (masters []redis.UniversalClient) {
	for _, mini := range minis {
		masters = append(masters, servertest.Connect(s, mini.Addr(), func(o *redis.Options) { o.MaxRetries = -1 }))
	}
	return masters
}
