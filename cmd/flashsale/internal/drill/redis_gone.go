package drill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

var redisGone = drill{
	name:      "redis-gone",
	happens:   "Redis is gone until the nodes sell without it, and comes back as it was, from its log, or empty",
	sees:      "503 for a moment, then yes by the direct way, and the gate again once it is rebuilt",
	never:     "an unguarded sale: oversell, two orders under one key, a yes lost on the way back",
	redisLink: true,
	harm: func(ctx context.Context, s *stage) error {
		if err := s.moment(ctx); err != nil {
			return err
		}
		had := s.sum(ctx, directOrders)
		back := s.takeRedis()
		err := s.direct(ctx, had)
		healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		if err := errors.Join(err, back(healing)); err != nil {
			return err
		}
		err = s.until(healing, "the gate is rebuilt", func(ctx context.Context) bool { return s.sum(ctx, "flashsale_direct_left_total") >= 1 })
		if err != nil {
			return err
		}
		s.did("%.0f orders went the direct way, the gate is rebuilt", s.sum(healing, directOrders)-had)
		return nil
	},
}

const directOrders = "flashsale_direct_orders_total"

// takeRedis takes Redis away, and returns how it comes back.
func (s *stage) takeRedis() (back func(context.Context) error) {
	redis := s.stores.Redis
	switch s.random.IntN(3) {
	case 0:
		s.redisLink.Cut()
		s.did("Redis cut off from all nodes")
		return func(context.Context) error {
			s.did("let through again, as it was")
			return s.redisLink.Lead(redis.Addr())
		}
	case 1:
		redis.Kill()
		s.did("Redis killed")
		return func(ctx context.Context) error {
			defer s.did("started again from its log")
			return redis.Restart(ctx)
		}
	}
	redis.Kill()
	s.did("Redis killed")
	return func(ctx context.Context) error {
		defer s.did("started again, empty")
		return redis.RestartEmpty(ctx)
	}
}

// direct waits until buyers have got their orders without Redis, from nodes that
// say so, and then a little.
func (s *stage) direct(ctx context.Context, had float64) error {
	const many = 20
	err := s.until(ctx, fmt.Sprintf("%d orders went the direct way", many), func(ctx context.Context) bool {
		return s.sum(ctx, directOrders) >= had+many
	})
	if err != nil {
		return err
	}
	for _, n := range s.nodes {
		err := s.until(ctx, n.name+" says that it sells without Redis", func(ctx context.Context) bool {
			ready, err := get(ctx, "http://"+n.Addr()+"/readyz")
			return err == nil && strings.Contains(ready, "degraded") && strings.Contains(ready, "redis")
		})
		if err != nil {
			return err
		}
	}
	s.did("sold the direct way")
	s.pause(ctx, 500*time.Millisecond, time.Second)
	return nil
}
