package drill

import (
	"context"
	"fmt"
	"time"

	"flashsale/loadtest/servers/wire"
)

var commitAnswerLost = drill{
	name:      "commit-answer-lost",
	happens:   "MySQL gets what the nodes send, and its answers are lost for a moment, until a keeper's pass has failed of it",
	sees:      "at most a slower yes, or 202 and then the truth",
	never:     "a duplicate; a yes lost; units given back for an order that is stored",
	mysqlWire: true,
	keeper:    true,
	fault: func(ctx context.Context, s *stage) error {
		const failures = "flashsale_keeper_failures_total"
		// A keeper that has nothing to carry at that moment notices nothing.
		before, cuts := s.Sum(ctx, failures), 0
		for ; cuts < 10 && s.Sum(ctx, failures) == before && ctx.Err() == nil; cuts++ {
			mend := s.mysqlWire.Lose(wire.Answers)
			s.pause(ctx, 50*time.Millisecond, 300*time.Millisecond)
			mend() // this breaks the connections
			s.did("MySQL's answers lost for a moment")
			s.pause(ctx, 300*time.Millisecond, 500*time.Millisecond)
		}
		if s.Sum(ctx, failures) == before {
			return fmt.Errorf("no keeper noticed that answers were lost, in %d attempts", cuts)
		}
		return nil
	},
}
