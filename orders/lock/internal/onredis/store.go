// Package onredis is what the locks in Redis have in common: the scripts, and how
// they are sent.
package onredis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/lease"
)

// A Store is what a lock in Redis is made of, without waiting.
type Store struct {
	RDB     redis.UniversalClient
	Config  lease.Config
	Scripts Scripts
	Reach   string // as in acquire.lua
	// Questions and releases apart: go-redis may repeat a question by itself, a
	// release never.
	Asking, Erasing *Sender
}

// New returns a Store on rdb.
func New(rdb redis.UniversalClient, cfg lease.Config) *Store {
	s := &Store{RDB: rdb, Config: cfg.WithDefaults(), Scripts: NewScripts(), Reach: "0"}
	if alone(rdb) {
		s.Reach = "1"
	}
	s.Asking, s.Erasing = newSender(rdb, s.Config.Timeout, false), newSender(rdb, s.Config.Timeout, true)
	switch rdb.(type) {
	case interface{ Options() *redis.Options }, interface{ Options() *redis.ClusterOptions }, *redis.Ring:
	default:
		s.Config.Logger.Warn("lock: a Redis client of an unknown kind: calls of the same moment are not sent together",
			"type", fmt.Sprintf("%T", rdb), "known", "*redis.Client and *redis.ClusterClient, also embedded")
	}
	return s
}

// alone tells the client of one server, also where a program has embedded it in its
// own, from that of a cluster.
func alone(rdb redis.UniversalClient) bool {
	_, one := rdb.(interface{ Options() *redis.Options })
	return one
}

// Question asks for the lock and returns what acquire.lua does.
func (s *Store) Question(ctx context.Context, key, token, channel string, n int) (int64, error) {
	lease := s.Config.Lease.Milliseconds()
	return s.Asking.Eval(ctx, s.Scripts.Acquire, Keys(key), token, lease, s.Reach, channel, n, lease)
}

// Remaining is a Locker's, in one round trip.
func (s *Store) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Config.Timeout)
	defer cancel()
	cmds, err := s.RDB.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.PTTL(ctx, key)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("remaining time of %d locks: %w", len(keys), err)
	}
	left := make([]time.Duration, len(keys))
	for i, cmd := range cmds {
		// go-redis hands Redis's -1 and -2 on as that many nanoseconds.
		switch d := cmd.(*redis.DurationCmd).Val(); d {
		case -2:
			left[i] = 0
		case -1:
			left[i] = lease.Forever
		default:
			left[i] = max(d, time.Millisecond) // its last millisecond reads as 0
		}
	}
	return left, nil
}
