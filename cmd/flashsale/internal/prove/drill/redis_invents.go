package drill

import (
	"context"
	"time"
)

var redisInvents = drill{
	name:    "redis-invents",
	happens: "the sale is sold out, and Redis believes that there are 20 units more",
	sees:    "sold_out all the same: from the database",
	never:   "oversell",
	keeper:  true,
	fault: func(ctx context.Context, s *stage) error {
		a := &controlSale{stage: s, sku: sku} // the one under attack
		const unsold = "total - sold"
		err := s.until(ctx, "everything is sold", func(ctx context.Context) bool {
			left, err := a.inSale(ctx, unsold)
			return err == nil && left == 0 && a.gate(ctx, "available") == 0
		})
		if err != nil {
			return err
		}
		s.pause(ctx, 0, 300*time.Millisecond)
		if err := a.redis.HIncrBy(ctx, a.key(""), "available", 20).Err(); err != nil {
			return err
		}
		s.did("20 units invented")
		// Whoever tries for them hears the database's no; or gets them, and the
		// verdict has it.
		return s.until(ctx, "buyers have tried for them", func(ctx context.Context) bool {
			refused, err := a.count(ctx, "status = 'rejected' AND reason = 'sold_out'")
			if err == nil && refused > 0 {
				s.did("the database refuses")
				return true
			}
			left, err := a.inSale(ctx, unsold)
			return err == nil && left < 0
		})
	},
}
