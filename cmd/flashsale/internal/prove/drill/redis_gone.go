package drill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
)

var redisGone = drill{
	name:      "redis-gone",
	happens:   "Redis is gone until the nodes sell without it, and comes back as it was, from its log, or empty",
	sees:      "503 for a moment, then yes in direct mode, and the gate again once it is rebuilt",
	never:     "an unguarded sale: oversell, two orders under one key, a yes lost on the way back",
	redisWire: true,
	keeper:    true,
	fault: func(ctx context.Context, s *stage) error {
		had := s.Sum(ctx, directOrders)
		back := s.takeRedis()
		err := s.direct(ctx, had)
		healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), lab.Patience)
		defer cancel()
		if err := errors.Join(err, back(healing)); err != nil {
			return err
		}
		err = s.until(healing, "the gate is rebuilt", func(ctx context.Context) bool { return s.Sum(ctx, "flashsale_direct_left_total") >= 1 })
		if err != nil {
			return err
		}
		s.did("%.0f orders were placed in direct mode, the gate is rebuilt", s.Sum(healing, directOrders)-had)
		return nil
	},
}

const directOrders = "flashsale_direct_orders_total"

// takeRedis takes Redis away, and returns how it comes back.
func (s *stage) takeRedis() (back func(context.Context) error) {
	redis := s.Stores.Redis
	way := s.random.IntN(3)
	if way == 0 {
		s.redisWire.Cut()
		s.did("Redis cut off from all nodes")
		return func(context.Context) error {
			s.redisWire.Restore()
			s.did("let through again, as it was")
			return nil
		}
	}
	start, how := redis.RestartEmpty, "started again, empty"
	if way == 1 {
		start, how = redis.Restart, "started again from its log"
	}
	redis.Kill()
	s.did("Redis killed")
	return func(ctx context.Context) error {
		defer s.did("%s", how)
		return start(ctx)
	}
}

// direct waits until buyers have got their orders without Redis, from nodes that
// say so, and then a little.
func (s *stage) direct(ctx context.Context, had float64) error {
	const many = 20
	err := s.until(ctx, fmt.Sprintf("%d orders were placed in direct mode", many), func(ctx context.Context) bool {
		return s.Sum(ctx, directOrders) >= had+many
	})
	if err != nil {
		return err
	}
	for _, n := range s.Nodes {
		err := s.until(ctx, n.Name+" says that it sells without Redis", func(ctx context.Context) bool {
			ready, err := n.Page(ctx, "/readyz")
			return err == nil && strings.Contains(ready, "degraded") && strings.Contains(ready, "redis")
		})
		if err != nil {
			return err
		}
	}
	s.did("sold in direct mode")
	s.pause(ctx, 500*time.Millisecond, time.Second)
	return nil
}
