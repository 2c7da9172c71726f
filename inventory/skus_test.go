package inventory

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// exchanges stops the first call until the test frees it, and counts the commands of each
// following pipeline.
type exchanges struct {
	redis.Hook
	under, free chan struct{}
	first       sync.Once

	mu        sync.Mutex
	pipelines []int
}

func (*exchanges) DialHook(next redis.DialHook) redis.DialHook { return next }

func (e *exchanges) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			e.first.Do(func() { close(e.under); <-e.free })
		}
		return next(ctx, cmd)
	}
}

func (e *exchanges) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "evalsha" { // a new connection begins with a pipeline, too
			e.mu.Lock()
			e.pipelines = append(e.pipelines, len(cmds))
			e.mu.Unlock()
		}
		return next(ctx, cmds)
	}
}

// Concurrent calls for many SKUs share a pipeline. Each call has its own answer, and a
// SKU without a gate does not affect the other SKUs.
func TestManySKUsShareExchanges(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		const sales = 20
		client := servertest.Connect(t, rdb.Options().Addr, func(o *redis.Options) { o.PoolSize = 2 }) // one call at a time
		g := newGate(client, Config{Timeout: time.Minute})
		skus := make([]string, sales)
		for i := range skus {
			if skus[i] = newSKU(); i > 0 {
				open(t, g, skus[i], 5, 5)
				reserve(t, g, order(skus[i], skus[i]+"-a", "ann")) // the node learns the epoch
			}
		}
		e := &exchanges{under: make(chan struct{}), free: make(chan struct{})}
		client.AddHook(e)

		var all sync.WaitGroup
		errs := make([]error, sales)
		ask := func(i int) {
			all.Go(func() { errs[i] = check.Err(g.Reserve(t.Context(), order(skus[i], skus[i]+"-b", "bob"))) })
		}
		ask(1)
		<-e.under
		for i := range skus {
			if i != 1 {
				ask(i)
			}
		}
		check.Eventually(t, "all callers wait", func() bool { return g.pipe.Group.Len() == sales })
		close(e.free)
		all.Wait()

		if len(e.pipelines) == 0 || e.pipelines[0] != sales-1 {
			t.Errorf("first pipeline: got calls %d, want %d in the first", e.pipelines, sales-1)
		}
		check.Is(t, errs[0], ErrNoGate)
		for i := 1; i < sales; i++ {
			check.Must(t, errs[i])
			if v := inspect(t, g, skus[i]); v.Available != 3 {
				t.Errorf("gate of %s: got %d units left, want 3 of 5", skus[i], v.Available)
			}
		}
	})
}
