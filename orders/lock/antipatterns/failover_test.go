package antipatterns

import (
	"errors"
	"testing"

	"flashsale/orders/lock"
	"flashsale/orders/lock/fence"

	"flashsale/loadtest/servers/servertest/check"
)

// Redis answers before its replicas have heard. A lock that was granted in the
// last moment of a master is unknown to the one that takes over; that happens to
// every lock in one Redis. What must not happen is that its fence forgets, too: a
// counter in the same Redis gives both holders the SAME number, and the resource
// can't tell them apart.
func TestAntipatternFailover(t *testing.T) {
	show(t, func(s *scene) error {
		r := &resource{unfenced: true} // it compares numbers, below
		_, replica := s.server()
		s.say("41 locks have been held, and the replica knows")
		tag := key + ":fence"
		s.rdb.Set(s.ctx, tag, 41, 0)
		replica.Set(s.ctx, tag, 41, 0)
		s.say("A takes the lock, and a token from a counter in Redis")
		a, err := s.ours().TryAcquire(s.ctx, key)
		check.Must(s, err)
		fenceA, err := fence.NewRedis(s.rdb).Raise(s.ctx, a)
		check.Must(s, err)
		s.say("A: %d. The master dies before the replica has heard of either; the replica takes over", fenceA)
		b, err := lock.New(replica, config).TryAcquire(s.ctx, key)
		check.Must(s, err)
		fenceB, err := fence.NewRedis(replica).Raise(s.ctx, b)
		check.Must(s, err)
		s.say("B takes the lock there, and a token: %d", fenceB)
		r.fence = int(fenceB)
		check.Must(s, r.write(int(fenceB), "B"))
		s.say("A's token %d is not below %d: the resource lets it write", fenceA, fenceB)
		if fenceA >= fenceB {
			check.Must(s, r.write(int(fenceA), "A"))
		}
		return lastWord(r)
	}, func(s *scene) error {
		r := &resource{}
		_, replica := s.server()
		s.say("A takes the lock, and a token from the resource that it will write")
		if !s.enters(s.ours()) {
			s.Fatal("not free")
		}
		fenceA := r.raise()
		s.say("A: %d. The master dies, the replica takes over and knows nothing", fenceA)
		if !s.enters(lock.New(replica, config)) {
			return errors.New("this is no failover")
		}
		fenceB := r.raise()
		s.say("B takes the lock there, and a token from the resource: %d", fenceB)
		check.Must(s, r.write(fenceB, "B"))
		s.say("A writes: %v", r.write(fenceA, "A"))
		return lastWord(r)
	})
}
