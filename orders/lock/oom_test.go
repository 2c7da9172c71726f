package lock

import (
	"testing"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/lease"
)

// Locks are acquired, renewed and released even if Redis is out of memory, because the
// program that frees memory needs a lock.
func TestLockWorksOutOfMemory(t *testing.T) {
	s := real(t)
	rdb, ctx := s.connect(t), check.Context(t)
	check.Must(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	if err := rdb.Set(ctx, "k", 1, 0).Err(); err == nil {
		t.Fatal("SET in a full Redis: got no error, want an out-of-memory error")
	}
	c := s.idle(t, lease.Config{})
	for range 2 { // in the second round Redis has the scripts
		l, err := c.TryAcquire(ctx, "lock")
		check.Must(t, err)
		check.OK(t, c.store.Renew(ctx, []*lease.Lock{l})[0])
		check.OK(t, l.Release(ctx))
	}
}
