package drill

import (
	"context"
	"fmt"
	"time"
)

// moment waits for the attack and then for the moment of harm: late enough that
// orders are under way, and early enough that there is much left to sell.
func (s *stage) moment(ctx context.Context) error {
	d := s.between(s.cfg.Duration*3/20, s.cfg.Duration*6/20)
	select {
	case <-s.balancer.began:
		return s.sleep(ctx, d)
	case <-ctx.Done():
		return fmt.Errorf("no attack to do harm to: %w", ctx.Err())
	}
}

// between draws a time.
func (s *stage) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)+1))
}

// sleep lets d pass. Harm takes time; there is no signal to wait for.
func (s *stage) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause is sleep for a drawn time, for harm that has something to mend: it
// merely ends early with ctx.
func (s *stage) pause(ctx context.Context, least, most time.Duration) {
	_ = s.sleep(ctx, s.between(least, most))
}

// patience is for what must come about by itself.
const patience = 30 * time.Second

// until asks until the answer is yes.
func (s *stage) until(ctx context.Context, what string, yes func(ctx context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !yes(ctx) {
		if err := s.sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("wait until %s: %w", what, err)
		}
	}
	return nil
}
