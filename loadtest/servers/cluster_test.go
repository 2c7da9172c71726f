package servers

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// While a slot moves, its keys are on two masters. Afterwards the new master owns it.
func TestRedisClusterMovesASlot(t *testing.T) {
	needReal(t)
	t.Parallel()
	ctx := t.Context()
	c, err := StartRedisCluster(ctx, 3)
	need(t, err)
	defer func() { need(t, c.Close()) }()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.Nodes[0].Addr()}})
	defer rdb.Close()
	need(t, rdb.MSet(ctx, "{a}1", 1, "{a}2", 2).Err())

	from, err := c.Owner(ctx, "{a}")
	need(t, err)
	to := c.Nodes[0]
	if from == to {
		to = c.Nodes[1]
	}
	move, err := c.BeginMove(ctx, "{a}", to)
	need(t, err)
	need(t, move.Move(ctx, "{a}1"))
	if keys, err := move.Keys(ctx); err != nil || len(keys) != 1 || keys[0] != "{a}2" {
		t.Errorf("keys left to move: got %v, error %v, want {a}2", keys, err)
	}
	single := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{to.Addr()}, MaxRedirects: -1, MaxRetries: -1})
	defer single.Close()
	if err := single.MGet(ctx, "{a}1", "{a}2").Err(); !redis.HasErrorPrefix(err, "TRYAGAIN") {
		t.Errorf("MGET of a half-moved slot: got error %v, want TRYAGAIN", err)
	}
	need(t, move.Move(ctx, "{a}2"))
	need(t, move.End(ctx))
	if owner, err := c.Owner(ctx, "{a}"); owner != to || err != nil {
		t.Errorf("owner after the move: got %v, error %v, want the new master", owner, err)
	}
}
