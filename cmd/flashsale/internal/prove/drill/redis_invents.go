package drill

import (
	"context"
	"time"
)

func redisInvents(in *injector, _ step) error {
	ctx, a := in.ctx, &controlSale{attack: in.attack, sku: sku} // the sale under attack
	const unsold = "total - sold"
	err := a.until(ctx, "everything is sold", func(ctx context.Context) bool {
		left, err := a.inSale(ctx, unsold)
		return err == nil && left == 0 && a.gate(ctx, "available") == 0
	})
	if err != nil {
		return err
	}
	a.pause(ctx, 0, 300*time.Millisecond)
	if err := a.redis.HIncrBy(ctx, a.key(""), "available", 20).Err(); err != nil {
		return err
	}
	a.did("20 units invented")
	// The database must reject orders for the invented units. If it accepts one, the judge
	// reports an oversell.
	return a.until(ctx, "buyers have tried for them", func(ctx context.Context) bool {
		refused, err := a.count(ctx, "status = 'rejected' AND reason = 'sold_out'")
		if err == nil && refused > 0 {
			a.did("the database refuses")
			return true
		}
		left, err := a.inSale(ctx, unsold)
		return err == nil && left < 0
	})
}
