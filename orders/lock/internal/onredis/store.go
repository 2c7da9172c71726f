// Package onredis is what the locks in Redis have in common: the scripts, and how
// they are sent.
package onredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/coalesce/pipeline"
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
	Asking, Erasing *pipeline.Sender
}

// New returns a Store on rdb.
func New(rdb redis.UniversalClient, cfg lease.Config) *Store {
	s := &Store{RDB: rdb, Config: cfg.WithDefaults(), Scripts: NewScripts(), Reach: "0"}
	if _, one := rdb.(pipeline.Single); one {
		s.Reach = "1"
	}
	s.Asking, s.Erasing = pipeline.New(rdb, s.Config.Timeout, nil), pipeline.New(rdb, s.Config.Timeout, nil)
	s.Erasing.Once = true
	switch rdb.(type) {
	case pipeline.Single, interface{ Options() *redis.ClusterOptions }, *redis.Ring:
	default:
		s.Config.Logger.Warn("lock: a Redis client of an unknown kind: calls of the same moment are not sent together",
			"type", fmt.Sprintf("%T", rdb), "known", "*redis.Client and *redis.ClusterClient, also embedded")
	}
	return s
}

// Question asks for the lock and returns what acquire.lua does.
func (s *Store) Question(c *lease.Call, token, channel string, n int) (int64, error) {
	return s.Scripts.Acquire.Run(c.Ctx, s.Asking, Keys(c.Key), token, c.Lease.Milliseconds(), s.Reach, channel, n, c.Note).Int64()
}

// Observe is a Client's.
func (s *Store) Observe(ctx context.Context, key string) (h lease.Holder, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Config.Timeout)
	defer cancel()
	value, err := s.RDB.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return h, nil
	}
	if err != nil {
		return h, fmt.Errorf("observe %q: %w", key, err)
	}
	_, value, _ = strings.Cut(value, " ")
	since, note, _ := strings.Cut(value, " ")
	h.Held = true
	if ms, err := strconv.ParseInt(since, 10, 64); err == nil {
		h.Since, h.Note = time.UnixMilli(ms), note
	}
	return h, nil
}

// Remaining is a Locker's, in one round trip.
func (s *Store) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Config.Timeout)
	defer cancel()
	ttls, values := make([]*redis.DurationCmd, len(keys)), make([]*redis.StringCmd, len(keys))
	// The error of the whole is that of its first command, and each has its own.
	_, _ = s.RDB.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			ttls[i], values[i] = p.PTTL(ctx, key), p.Get(ctx, key)
		}
		return nil
	})
	left := make([]time.Duration, len(keys))
	for i, ttl := range ttls {
		d, err := ttl.Result()
		if err != nil {
			return nil, fmt.Errorf("remaining time of %d locks: %w", len(keys), err)
		}
		// go-redis hands Redis's -1 and -2 on as that many nanoseconds.
		switch {
		case d == -2 || d > leaseOf(values[i].Val()): // as has_ended of value.lua
			left[i] = 0
		case d == -1:
			left[i] = lease.Forever
		default:
			left[i] = max(d, time.Millisecond) // its last millisecond reads as 0
		}
	}
	return left, nil
}
