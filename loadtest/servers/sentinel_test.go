package servers

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// Writes that the replica has received survive the failover. Writes after DetachReplica are lost.
func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	needReal(t)
	ctx := t.Context()
	s, err := StartRedisSentinel(ctx)
	need(t, err)
	defer func() { need(t, s.Close()) }()
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: SentinelMaster, SentinelAddrs: []string{s.Sentinel.Addr()}})
	defer rdb.Close()
	need(t, rdb.Set(ctx, "kept", 1, 0).Err())
	need(t, s.WaitReplicated(ctx))
	need(t, s.DetachReplica(ctx))
	need(t, rdb.Set(ctx, "lost", 1, 0).Err())
	need(t, s.Failover(ctx))
	need(t, await(ctx, "wait for the client to find the new master", func() error { return rdb.Set(ctx, "new", 1, 0).Err() }))
	if n := rdb.Exists(ctx, "kept").Val(); n != 1 {
		t.Error("replicated key after the failover: got none, want it")
	}
	if n := rdb.Exists(ctx, "lost").Val(); n != 0 {
		t.Error("key written after Detach: got it after the failover, want it lost")
	}
}
