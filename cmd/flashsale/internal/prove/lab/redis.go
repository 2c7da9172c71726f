package lab

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisClient returns a client of the server at addr, which bypasses the nodes' wires.
func RedisClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
}

// ReplicateFrom makes a Redis the replica of the one at primary, and waits until it has all data.
func ReplicateFrom(ctx context.Context, replica *redis.Client, primary string) error {
	host, port, _ := strings.Cut(primary, ":")
	if err := replica.ReplicaOf(ctx, host, port).Err(); err != nil {
		return err
	}
	return Until(ctx, 10*time.Millisecond, "the replica follows", func(ctx context.Context) (bool, error) {
		info, err := replica.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up"), nil
	})
}

// Promote makes a replica a primary.
func Promote(ctx context.Context, replica *redis.Client) error {
	return replica.ReplicaOf(ctx, "NO", "ONE").Err()
}
