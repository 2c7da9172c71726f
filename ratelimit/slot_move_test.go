package ratelimit

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// A bucket's slot moves to another master. What was taken stays taken, and what is
// left is given out, before, on the way and after.
func TestSlotMovesWithItsTokens(t *testing.T) {
	t.Parallel()
	c := servertest.OpenRedisCluster(t, 3)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.Nodes[0].Addr()}, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	l, ctx := New(client, Config{Timeout: time.Hour, Remember: -1}), t.Context()
	moving, beside := forBuyer("b1", parse(t, "1/h:4")), forIP("192.0.2.1", parse(t, "1/h:100"))
	key := moving.key(defaultPrefix)
	take := func(when string, allowed bool) {
		t.Helper()
		if r := allow(t, l, 1, moving, beside); r.Allowed != allowed {
			t.Errorf("%s: %+v", when, r)
		}
	}
	take("at rest", true)
	from, err := c.Owner(ctx, key)
	check.Must(t, err)
	move, err := c.BeginMove(ctx, key, c.Nodes[(slices.Index(c.Nodes, from)+1)%3])
	check.Must(t, err)
	take("before its key moves", true)
	check.Must(t, move.Move(ctx, key))
	take("after its key has moved", true)
	check.Must(t, move.End(ctx))
	take("at its new master", true)
	take("when all is taken", false)
	if n := left(t, client, beside); n != 100-4 {
		t.Errorf("beside it %d are left", n)
	}
}
