// Package onredis contains the scripts that the locks in Redis share, and the code that
// sends them.
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

// A Store acquires, renews and releases locks in Redis, without waiting. Each kind of lock
// has its own Scripts. Their first arguments are the token, the lease in ms, and Extra.
type Store struct {
	RDB     redis.UniversalClient
	Config  lease.Config
	Scripts Scripts
	Extra   any                              // ARGV[3] of the scripts, whose meaning depends on the kind of lock
	Keys    func(key, token string) []string // KEYS of Acquire and Release
	// go-redis may repeat an acquisition. It must not repeat a release, because the
	// second attempt would report that the lease has ended.
	Asking, Erasing *pipeline.Sender
}

// New returns a Store on rdb.
func New(rdb redis.UniversalClient, cfg lease.Config) *Store {
	s := &Store{RDB: rdb, Config: cfg.WithDefaults(), Scripts: NewScripts(), Extra: "0", Keys: func(key, _ string) []string { return Keys(key) }}
	if _, one := rdb.(pipeline.Single); one {
		s.Extra = "1"
	}
	s.Asking, s.Erasing = pipeline.New(rdb, s.Config.Timeout, nil), pipeline.New(rdb, s.Config.Timeout, nil)
	s.Erasing.Once = true
	switch rdb.(type) {
	case *redis.Client, *redis.ClusterClient, *redis.Ring:
	case pipeline.Single, interface{ Options() *redis.ClusterOptions }:
		s.Config.Logger.Warn("lock: methods that this Redis client type overrides, such as Eval, are not called: use hooks of go-redis (AddHook) instead",
			"type", fmt.Sprintf("%T", rdb))
	default:
		s.Config.Logger.Warn("lock: Redis client has an unknown type, so concurrent calls do not share round trips; use or embed a known type",
			"type", fmt.Sprintf("%T", rdb), "known", "*redis.Client, *redis.ClusterClient")
	}
	return s
}

// Ask runs Scripts.Acquire. If the lock is held, it returns ErrHeld with the holder's
// remaining time, which is negative if the key never expires.
func (s *Store) Ask(ctx context.Context, key, token string, lasting time.Duration, args ...any) (left time.Duration, err error) {
	args = append([]any{token, lasting.Milliseconds(), s.Extra}, args...)
	ms, err := s.Scripts.Acquire.Run(ctx, s.Asking, s.Keys(key, token), args...).Int64()
	if err == nil && ms != 0 {
		err = lease.ErrHeld
	}
	return time.Duration(ms) * time.Millisecond, err
}

// Take asks for the lock, and begins the lease if the lock is granted. If the answer was
// lost, Take releases the lock.
func (s *Store) Take(c *lease.Call, token string, args ...any) (l *lease.Lock, left time.Duration, err error) {
	// The server starts the lease later than this, when it runs the script. The lease
	// that is counted from here therefore ends first.
	sent := time.Now()
	if left, err = s.Ask(c.Ctx, c.Key, token, c.Lease, args...); err == nil {
		l, err = s.Hold(c, token, sent)
	} else if !errors.Is(err, lease.ErrHeld) {
		err = s.takeBack(c, token, err)
	}
	return l, left, err
}

// Hold begins the lease of a lock that the server has granted. sent is the time at which the
// request was sent. If the lease cannot begin, Hold releases the lock.
func (s *Store) Hold(c *lease.Call, token string, sent time.Time) (*lease.Lock, error) {
	l, err := c.Hold(token, sent)
	if err != nil {
		err = s.takeBack(c, token, err)
	}
	return l, err
}

// Observe implements lock.Client.Observe.
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

// Remaining implements lease.Locker, in one round trip.
func (s *Store) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Config.Timeout)
	defer cancel()
	ttls, values := make([]*redis.DurationCmd, len(keys)), make([]*redis.StringCmd, len(keys))
	// Pipelined returns the error of the first command; each command has its own.
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
			return nil, fmt.Errorf("read the remaining time of %d locks: %w", len(keys), err)
		}
		// go-redis returns the replies -1 and -2 of PTTL as -1 ns and -2 ns.
		switch {
		case d == -2 || d > leaseOf(values[i].Val()): // the same rule as has_ended in value.lua
			left[i] = 0
		case d == -1:
			left[i] = lease.Forever
		default:
			left[i] = max(d, time.Millisecond) // the last millisecond reads as 0
		}
	}
	return left, nil
}
