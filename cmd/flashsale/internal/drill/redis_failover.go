package drill

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
)

var redisFailover = drill{
	name:      "redis-failover",
	happens:   "Redis's primary dies before its last writes reached the replica, which is promoted",
	sees:      "503 until the failover is done; an answer that was lost is found under its key",
	never:     "oversell; a yes lost; two orders under one key",
	redisLink: true,
	replica:   true,
	harm: func(ctx context.Context, s *stage) error {
		primary, replica := client(s.stores.Redis.Addr()), client(s.replica.Addr())
		defer func() { _, _ = primary.Close(), replica.Close() }()
		if err := s.moment(ctx); err != nil {
			return err
		}
		s.replicaLink.Cut()
		s.pause(ctx, 50*time.Millisecond, 200*time.Millisecond)
		behind := int64(0)
		err := s.until(ctx, "writes miss the replica", func(ctx context.Context) bool {
			behind = offset(ctx, primary) - offset(ctx, replica)
			return behind > 0
		})
		s.stores.Redis.Kill()
		s.did("primary killed, its last %d bytes of writes lost", behind)
		s.pause(ctx, 100*time.Millisecond, time.Second)

		healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err = errors.Join(err,
			replica.Do(healing, "REPLICAOF", "NO", "ONE").Err(),
			s.redisLink.Lead(s.replica.Addr()))
		s.did("replica promoted")
		return err
	},
}

// startReplica starts a Redis that follows another, and waits until it does.
func startReplica(ctx context.Context, primary string) (*servers.Redis, error) {
	host, port, err := net.SplitHostPort(primary)
	if err != nil {
		return nil, err
	}
	r, err := servers.StartRedis(ctx, servers.RedisOptions{AppendFsync: "always", ExtraArgs: []string{
		"--replicaof", host, port, "--repl-diskless-sync-delay", "0",
	}})
	if err != nil {
		return nil, err
	}
	rdb := client(r.Addr())
	defer func() { _ = rdb.Close() }()
	err = new(stage).until(ctx, "the replica follows", func(ctx context.Context) bool {
		info, err := rdb.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func client(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
}

// offset is how far a Redis has come in the stream of writes.
func offset(ctx context.Context, rdb *redis.Client) int64 {
	info, err := rdb.Info(ctx, "replication").Result()
	if err != nil {
		return 0
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "master_repl_offset:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64) // 0 where it is none
			return n
		}
	}
	return 0
}
