package drill

import (
	"context"
	"time"
)

var redisEmptied = drill{
	name:    "redis-emptied",
	happens: "Redis is killed and comes back without any data",
	sees:    "503 until the gate is rebuilt from the database",
	never:   "oversell; a sold-out sale reopened",
	harm: func(ctx context.Context, s *stage) error {
		if err := s.moment(ctx); err != nil {
			return err
		}
		s.stores.Redis.Kill()
		s.did("Redis killed")
		s.pause(ctx, 100*time.Millisecond, time.Second)
		if err := s.stores.Redis.RestartEmpty(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		s.did("started again, empty")
		return nil
	},
}
