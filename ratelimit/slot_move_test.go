package ratelimit

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// The slot of a bucket moves to another master. Before, during and after the move, taken tokens
// stay taken and all other tokens are given out.
func TestMovedSlotKeepsItsTokens(t *testing.T) {
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
			t.Errorf("request %s: got %+v, want allowed %v", when, r, allowed)
		}
	}
	take("before the move", true)
	from, err := c.Owner(ctx, key)
	check.Must(t, err)
	move, err := c.BeginMove(ctx, key, c.Nodes[(slices.Index(c.Nodes, from)+1)%3])
	check.Must(t, err)
	take("during the move, before the key", true)
	check.Must(t, move.Move(ctx, key))
	take("during the move, after the key", true)
	check.Must(t, move.End(ctx))
	take("after the move", true)
	take("with no tokens left", false)
	if n := left(t, client, beside); n != 100-4 {
		t.Errorf("bucket beside the moved one: got %d tokens left, want 96", n)
	}
}
