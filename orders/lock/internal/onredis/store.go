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

// A Store is what a lock in Redis is made of, without waiting. Each kind of lock has its
// own scripts. Their first arguments are always the token, the lease in ms, and Own.
type Store struct {
	RDB     redis.UniversalClient
	Config  lease.Config
	Scripts Scripts
	Own     any                              // what only this kind of lock sends; for a lock, reach as in acquire.lua
	Keys    func(key, token string) []string // KEYS of Acquire and Release
	// Questions and releases apart: go-redis may repeat a question by itself, a
	// release never.
	Asking, Erasing *pipeline.Sender
}

// New returns a Store on rdb.
func New(rdb redis.UniversalClient, cfg lease.Config) *Store {
	s := &Store{RDB: rdb, Config: cfg.WithDefaults(), Scripts: NewScripts(), Own: "0", Keys: func(key, _ string) []string { return Keys(key) }}
	if _, one := rdb.(pipeline.Single); one {
		s.Own = "1"
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

// Ask runs the script that acquires. If the lock is held, it returns ErrHeld with the time
// that the holder has left, which is negative if the key never expires.
func (s *Store) Ask(ctx context.Context, key, token string, lasting time.Duration, args ...any) (left time.Duration, err error) {
	args = append([]any{token, lasting.Milliseconds(), s.Own}, args...)
	ms, err := s.Scripts.Acquire.Run(ctx, s.Asking, s.Keys(key, token), args...).Int64()
	if err == nil && ms != 0 {
		err = lease.ErrHeld
	}
	return time.Duration(ms) * time.Millisecond, err
}

// Take asks for the lock, and begins the lease if it is granted. If the answer was lost,
// it gives back what it may have taken.
func (s *Store) Take(c *lease.Call, token string, args ...any) (l *lease.Lock, left time.Duration, err error) {
	// The server starts the lease when it runs the script, which is after this instant.
	// A lease that is counted from here therefore ends before the server's.
	sent := time.Now()
	if left, err = s.Ask(c.Ctx, c.Key, token, c.Lease, args...); err == nil {
		l, err = s.Hold(c, token, sent)
	} else if !errors.Is(err, lease.ErrHeld) {
		err = s.takeBack(c, token, err)
	}
	return l, left, err
}

// Hold begins a lease that the server began after sent.
func (s *Store) Hold(c *lease.Call, token string, sent time.Time) (*lease.Lock, error) {
	l, err := c.Hold(token, sent)
	if err != nil {
		err = s.takeBack(c, token, err)
	}
	return l, err
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
