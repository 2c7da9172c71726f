package antipatterns

import (
	"errors"
	"testing"

	"flashsale/orders/lock"
	"flashsale/orders/lock/fence"

	"flashsale/loadtest/servers/servertest/check"
)

// Redis answers before its replicas have the write. If a master dies just after it has granted
// a lock, the new master does not have the lock. This applies to every lock in one Redis, so the
// fence must not be in the same Redis: its counter would issue the SAME token to both holders,
// and the resource could not distinguish them.
func TestAntipatternFailover(t *testing.T) {
	show(t, func(s *scene) error {
		r := &resource{unfenced: true} // the plot compares the tokens itself
		_, replica := s.server()
		s.say("the counter is at 41, also in the replica")
		tag := key + ":fence"
		s.rdb.Set(s.ctx, tag, 41, 0)
		replica.Set(s.ctx, tag, 41, 0)
		s.say("A acquires the lock, and receives a token from the counter in Redis")
		a, err := s.ours().TryAcquire(s.ctx, key)
		check.Must(s, err)
		fenceA, err := fence.NewRedis(s.rdb).Raise(s.ctx, a)
		check.Must(s, err)
		s.say("A's token is %d. The master dies before the replica has the lock and the counter; the replica becomes the master", fenceA)
		b, err := lock.New(replica, config).TryAcquire(s.ctx, key)
		check.Must(s, err)
		fenceB, err := fence.NewRedis(replica).Raise(s.ctx, b)
		check.Must(s, err)
		s.say("B acquires the lock there, with token %d", fenceB)
		r.fence = int(fenceB)
		check.Must(s, r.write(int(fenceB), "B"))
		s.say("A's token %d is not smaller than %d: the resource accepts A's write", fenceA, fenceB)
		if fenceA >= fenceB {
			check.Must(s, r.write(int(fenceA), "A"))
		}
		return lastWord(r)
	}, func(s *scene) error {
		r := &resource{}
		_, replica := s.server()
		s.say("A acquires the lock, and receives a token from the resource that it will write")
		if !s.acquires(s.ours()) {
			s.Fatal("client A: got the lock held, want it free")
		}
		fenceA := r.raise()
		s.say("A's token is %d. The master dies, and the replica becomes the master without the lock", fenceA)
		if !s.acquires(lock.New(replica, config)) {
			return errors.New("B: the lock is held, want it lost in the failover")
		}
		fenceB := r.raise()
		s.say("B acquires the lock there, and receives a token from the resource: %d", fenceB)
		check.Must(s, r.write(fenceB, "B"))
		s.say("A writes: %v", r.write(fenceA, "A"))
		return lastWord(r)
	})
}
