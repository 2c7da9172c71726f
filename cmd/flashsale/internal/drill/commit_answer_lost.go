package drill

import (
	"context"
	"fmt"
	"time"
)

var commitAnswerLost = drill{
	name:      "commit-answer-lost",
	happens:   "MySQL gets what the nodes send, and its answers are lost for a moment, until a keeper's pass has failed of it",
	sees:      "at most a slower yes, or 202 and then the truth",
	never:     "a duplicate; a yes lost; units given back for an order that is stored",
	mysqlLink: true,
	harm: func(ctx context.Context, s *stage) error {
		if err := s.moment(ctx); err != nil {
			return err
		}
		const failures = "flashsale_keeper_failures_total"
		// A keeper that has nothing to carry at that moment notices nothing.
		before, cuts := s.sum(ctx, failures), 0
		for ; cuts < 10 && s.sum(ctx, failures) == before && ctx.Err() == nil; cuts++ {
			mend, err := s.mysqlLink.Swallow()
			if err != nil {
				return err
			}
			s.pause(ctx, 50*time.Millisecond, 300*time.Millisecond)
			if err := mend(); err != nil { // this breaks the connections
				return err
			}
			s.did("MySQL's answers lost for a moment")
			s.pause(ctx, 300*time.Millisecond, 500*time.Millisecond)
		}
		if s.sum(ctx, failures) == before {
			return fmt.Errorf("no keeper noticed that answers were lost, in %d attempts", cuts)
		}
		return nil
	},
}
