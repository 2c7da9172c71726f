package antipatterns

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/redlock"
)

// A majority of five masters grants a lock, and the clock of one master jumps. The broken lock
// is our own Redlock without a fence. Redlock cannot be repaired, because each master measures
// the lease by its own clock. Like a lock in one Redis, it needs a fence.
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
			s.say("client A acquires the lock on masters A, B and C: three of five")
			if !s.acquires(a) {
				s.Fatal("client A: the lock is held, want it free")
			}
			fenceA := r.raise()
			s.say("master C's clock jumps ahead, and the lease ends there")
			minis[2].FastForward(long)
			s.say("masters D and E are up again")
			check.Must(s, ofA[3].Close()) // client A's late requests must not reach D and E
			check.Must(s, ofA[4].Close())
			check.Must(s, minis[3].Restart())
			check.Must(s, minis[4].Restart())
			s.say("client B acquires the lock on masters C, D and E: three of five")
			if !s.acquires(b) {
				s.Fatal("client B: the lock is held, want it free after the jump")
			}
			fenceB := r.raise()
			s.say("both clients hold the lock. B writes: %v", r.write(fenceB, "B"))
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
