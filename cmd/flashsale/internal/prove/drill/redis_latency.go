package drill

import (
	"context"
	"time"

	"flashsale/loadtest/servers/wire"
)

var redisLatency = drill{
	name:      "redis-latency",
	happens:   "every answer of Redis takes 50 to 250 ms longer, for a while",
	sees:      "a slower yes",
	never:     "an order under two ids; units held by nobody",
	redisWire: true,
	fault: func(ctx context.Context, s *stage) error {
		late := s.between(50*time.Millisecond, 250*time.Millisecond).Round(time.Millisecond)
		s.redisWire.Delay(wire.Answers, late, late/3)
		s.did("Redis answers %v later", late)
		s.pause(ctx, lease, lease*3/2)
		s.redisWire.Delay(wire.Answers, 0, 0)
		s.did("as before")
		return nil
	},
}
