package drill

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/cmd/flashsale/internal/prove/lab"
)

// This file has the aims of drills: which node a fault hits, and which event ends it.

// atKeeper aims at the node that keeps the sale. Without keepers, it aims at the first node.
func atKeeper(ctx context.Context, a *attack, p *step) error {
	if p.node = 0; a.cfg.Strategy != variants.Lua {
		return nil
	}
	n, err := a.keeper(ctx)
	if err == nil {
		p.node = slices.Index(a.Nodes, n)
		a.did("%s keeps the sale", n.Name)
	}
	return err
}

// keeper returns the node that keeps the sale. It does not ask nodes listed in gone.
func (a *attack) keeper(ctx context.Context, gone ...*lab.Node) (keeper *lab.Node, err error) {
	err = a.until(ctx, "a node keeps the sale", func(ctx context.Context) bool {
		for _, n := range a.Nodes {
			if !slices.Contains(gone, n) && n.Metric(ctx, "flashsale_keeper_skus") == 1 {
				keeper = n
				return true
			}
		}
		return false
	})
	return keeper, err
}

// untilSucceeded pauses the keeper until another node has taken over.
func untilSucceeded(ctx context.Context, a *attack, p *step) error {
	paused, atLeast := time.Now(), p.last
	p.until = func(ctx context.Context) error {
		successor, err := a.keeper(ctx, a.Nodes[p.node])
		if err == nil {
			a.did("%s took over", successor.Name)
			sleep(ctx, atLeast-time.Since(paused))
		}
		return err
	}
	return atKeeper(ctx, a, p)
}

// untilPassFailed loses answers of MySQL until a keeper's pass has failed.
func untilPassFailed(ctx context.Context, a *attack, p *step) error {
	const failures = "flashsale_keeper_failures_total"
	before := a.SumMetric(ctx, failures)
	p.last = 0
	p.until = func(ctx context.Context) error {
		// A keeper without orders in that moment misses no answer. Try again.
		return tries(10, "no pass of a keeper failed because of lost answers", func() (bool, error) {
			a.pause(ctx, 300*time.Millisecond, 500*time.Millisecond)
			if a.SumMetric(ctx, failures) > before {
				return true, nil
			}
			a.Nodes[p.node].MySQL.LoseAnswers(2, isCommit)
			return false, ctx.Err()
		})
	}
	return atKeeper(ctx, a, p)
}

// untilWritesMissed waits until the replica of Redis lacks some writes.
func untilWritesMissed(_ context.Context, a *attack, p *step) error {
	p.variant, p.last, p.down = 1, 0, a.between(100*time.Millisecond, time.Second)
	p.until = func(ctx context.Context) error {
		a.pause(ctx, 50*time.Millisecond, 200*time.Millisecond)
		replica, behind := lab.RedisClient(a.redises[1].Addr()), int64(0)
		defer func() { _ = replica.Close() }()
		err := a.until(ctx, "writes miss the replica", func(ctx context.Context) bool {
			behind = offset(ctx, a.redis) - offset(ctx, replica)
			return behind > 0
		})
		a.did("the last %d bytes of writes do not reach the replica", behind)
		return err
	}
	return nil
}

// offset returns the position of a Redis in the stream of writes.
func offset(ctx context.Context, rdb *redis.Client) int64 {
	info, _ := rdb.Info(ctx, "replication").Result()
	return int64(lab.ParseMetric(info, "master_repl_offset:"))
}

// variant returns an aim that chooses a form of the fault.
func variant(n int) func(context.Context, *attack, *step) error {
	return func(_ context.Context, _ *attack, p *step) error {
		p.variant = n
		return nil
	}
}

// untilDirect waits until orders are placed without Redis and all nodes report degraded
// service. After Redis returns, it waits until the gate is rebuilt.
func untilDirect(ctx context.Context, a *attack, p *step) error {
	const orders, many = "flashsale_direct_orders_total", 20
	had := a.SumMetric(ctx, orders)
	p.last = 0
	p.until = func(ctx context.Context) error {
		err := a.until(ctx, fmt.Sprintf("%d orders were placed in direct mode", many), func(ctx context.Context) bool {
			return a.SumMetric(ctx, orders) >= had+many
		})
		if err != nil {
			return err
		}
		for _, n := range a.Nodes {
			err := a.until(ctx, n.Name+" reports that it sells without Redis", func(ctx context.Context) bool {
				ready, err := n.GetPage(ctx, "/readyz")
				return err == nil && strings.Contains(ready, "degraded") && strings.Contains(ready, "redis")
			})
			if err != nil {
				return err
			}
		}
		a.did("sold in direct mode")
		a.pause(ctx, 500*time.Millisecond, time.Second)
		return nil
	}
	p.after = func(ctx context.Context) error {
		err := a.until(ctx, "the gate is rebuilt", func(ctx context.Context) bool { return a.SumMetric(ctx, "flashsale_direct_left_total") >= 1 })
		a.did("%.0f orders were placed in direct mode, the gate is rebuilt", a.SumMetric(ctx, orders)-had)
		return err
	}
	return nil
}

// untilTransactionsMissed waits until the replica of MySQL lacks some transactions.
func untilTransactionsMissed(ctx context.Context, a *attack, p *step) error {
	p.until = func(ctx context.Context) error {
		a.pause(ctx, 50*time.Millisecond, 300*time.Millisecond)
		missing := int64(0)
		err := a.until(ctx, "transactions miss the replica", func(ctx context.Context) bool {
			ahead, err := a.mysqls[0].TransactionCount(ctx)
			has, err2 := a.mysqls[1].TransactionCount(ctx)
			missing = ahead - has
			return err == nil && err2 == nil && missing > 0
		})
		a.did("the last %d transactions do not reach the replica", missing)
		return err
	}
	return downFor(ctx, a, p)
}

// downFor draws the time without a primary.
func downFor(_ context.Context, a *attack, p *step) error {
	p.down = a.between(100*time.Millisecond, time.Second)
	return nil
}
