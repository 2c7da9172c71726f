package lock

import (
	"context"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/lease"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A Redis that is out of memory still lets locks be taken, renewed and released:
// who empties it needs one.
func TestWithoutMemory(t *testing.T) {
	s := real(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.addr})
	defer func() { _ = rdb.Close() }()
	ctx := context.Background()
	check.Must(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	if err := rdb.Set(ctx, "k", 1, 0).Err(); err == nil {
		t.Fatal("there is memory")
	}
	c := New(rdb, lease.Config{})
	for range 2 { // the second time its scripts are known
		l, err := c.TryAcquire(ctx, "lock")
		check.Must(t, err)
		if errs := c.store.Renew(ctx, []*lease.Lock{l}); errs[0] != nil {
			t.Error(errs[0])
		}
		check.OK(t, l.Release(ctx))
	}
}
