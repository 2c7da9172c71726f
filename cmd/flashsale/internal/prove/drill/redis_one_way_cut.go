package drill

import (
	"context"

	"flashsale/loadtest/servers/wire"
)

var redisOneWayCut = drill{
	name:      "redis-one-way-cut",
	happens:   "Redis gets what the nodes send, and they get no answers, for about a lease",
	sees:      "503 or 202; the order is found under its key",
	never:     "units taken for good by an answer that was lost",
	redisWire: true,
	fault: func(ctx context.Context, s *stage) error {
		mend := s.redisWire.Lose(wire.Answers)
		s.did("Redis's answers cut off")
		s.pause(ctx, lease*3/4, lease*5/4)
		mend()
		s.did("let through again")
		return nil
	},
}
