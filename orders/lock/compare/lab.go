package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
)

// A lab is one Redis, and ways to it that count and delay.
type lab struct {
	each    time.Duration
	rounds  int
	redis   *servers.Redis
	version string
}

func newLab(ctx context.Context, each time.Duration, rounds int) (*lab, error) {
	// Nothing is written to disk: what is compared is the way, not the store.
	r, err := servers.StartRedis(ctx, servers.RedisOptions{ExtraArgs: []string{"--appendonly", "no"}})
	if err != nil {
		return nil, err
	}
	version := fmt.Sprintf("%s, %s, %d cores.", r.Version, runtime.Version(), runtime.NumCPU())
	return &lab{each: each, rounds: rounds, redis: r, version: version}, nil
}

func (l *lab) close() { _ = l.redis.Close() }

// empty forgets all keys.
func (l *lab) empty(ctx context.Context) error {
	rdb := redis.NewClient(&redis.Options{Addr: l.redis.Addr()})
	defer rdb.Close()
	return rdb.FlushAll(ctx).Err()
}
