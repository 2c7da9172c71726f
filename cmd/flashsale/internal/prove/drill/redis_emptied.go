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
	fault: func(ctx context.Context, s *stage) error {
		p := s.Stores.Redis.Process
		return s.killed(ctx, "Redis killed", p, 100*time.Millisecond, time.Second, p.RestartEmpty, "started again, empty")
	},
}
