package drill

import (
	"context"
	"time"

	"flashsale/loadtest/servers/wire"
)

// The drills in which a store's answers come late, or not at all.

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

var commitAnswerLost = drill{
	name:      "commit-answer-lost",
	happens:   "MySQL gets what the nodes send, and its answers are lost for a moment, until a keeper's pass has failed of it",
	sees:      "at most a slower yes, or 202 and then the truth",
	never:     "a duplicate; a yes lost; units given back for an order that is stored",
	mysqlWire: true,
	keeper:    true,
	fault: func(ctx context.Context, s *stage) error {
		const failures = "flashsale_keeper_failures_total"
		before := s.Sum(ctx, failures)
		// A keeper that has nothing to carry at that moment notices nothing.
		return tries(10, "no keeper noticed that answers were lost", func() (bool, error) {
			mend := s.mysqlWire.Lose(wire.Answers)
			s.pause(ctx, 50*time.Millisecond, 300*time.Millisecond)
			mend() // this breaks the connections
			s.did("MySQL's answers lost for a moment")
			s.pause(ctx, 300*time.Millisecond, 500*time.Millisecond)
			if s.Sum(ctx, failures) > before {
				return true, nil
			}
			return false, ctx.Err()
		})
	},
}
