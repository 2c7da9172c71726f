package lock

import (
	"testing"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/lease"
)

// A Redis that is out of memory still lets locks be taken, renewed and released:
// who empties it needs one.
func TestWithoutMemory(t *testing.T) {
	s := real(t)
	rdb, ctx := s.connect(t), check.Context(t)
	check.Must(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	if err := rdb.Set(ctx, "k", 1, 0).Err(); err == nil {
		t.Fatal("there is memory")
	}
	c := s.idle(t, lease.Config{})
	for range 2 { // the second time its scripts are known
		l, err := c.TryAcquire(ctx, "lock")
		check.Must(t, err)
		check.OK(t, c.store.Renew(ctx, []*lease.Lock{l})[0])
		check.OK(t, l.Release(ctx))
	}
}
