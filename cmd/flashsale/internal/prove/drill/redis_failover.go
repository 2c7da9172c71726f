package drill

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/client"
)

var redisFailover = drill{
	name:      "redis-failover",
	happens:   "Redis's primary dies before its last writes reached the replica, which is promoted",
	sees:      "503 until the failover is done; an answer that was lost is found under its key",
	never:     "oversell; a yes lost; two orders under one key",
	redisWire: true,
	replica:   true,
	fault: func(ctx context.Context, s *stage) error {
		s.replicaWire.Cut()
		s.pause(ctx, 50*time.Millisecond, 200*time.Millisecond)
		behind := int64(0)
		err := s.until(ctx, "writes miss the replica", func(ctx context.Context) bool {
			behind = offset(ctx, s.redis) - offset(ctx, s.replicaDB)
			return behind > 0
		})
		s.did("the last %d bytes of writes do not reach the replica", behind)
		return errors.Join(err, s.promote(ctx, s.between(100*time.Millisecond, time.Second)))
	},
}

// promote kills the primary, and leads the nodes to the replica after a while.
func (s *stage) promote(ctx context.Context, after time.Duration) error {
	s.Stores.Redis.Kill()
	s.did("primary killed")
	_ = client.Wait(ctx, after)
	healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), lab.Patience)
	defer cancel()
	err := lab.Promote(healing, s.replicaDB)
	s.redisWire.Lead(s.replica.Addr())
	s.did("replica promoted")
	return err
}

// offset is how far a Redis has come in the stream of writes.
func offset(ctx context.Context, rdb *redis.Client) int64 {
	info, _ := rdb.Info(ctx, "replication").Result()
	return int64(lab.Number(info, "master_repl_offset:"))
}
