package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/coalesce"
	"flashsale/inventory/coalesce/pipeline"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// A gate keeps single scripts from the server until it is opened, and counts the
// pipelines that pass.
type gate struct {
	open chan struct{}

	mu        sync.Mutex
	stopped   int
	pipelines int
}

func (g *gate) DialHook(next redis.DialHook) redis.DialHook { return next }
func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if isScript(cmd) {
			g.mu.Lock()
			g.stopped++
			g.mu.Unlock()
			<-g.open
		}
		return next(ctx, cmd)
	}
}
func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if isScript(cmds[0]) {
			g.mu.Lock()
			g.pipelines++
			g.mu.Unlock()
		}
		return next(ctx, cmds)
	}
}

// isScript is false of what a new connection introduces itself with.
func isScript(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), "eval") }

// crowd has n callers call ask: the first of them are under way, the others wait
// together. After is done before the first get on.
func crowd(t *testing.T, c *Client, s *pipeline.Sender, n int, ask func(i int) error, after func()) (errs []error, pipelines int) {
	t.Helper()
	g := &gate{open: make(chan struct{})}
	c.store.RDB.AddHook(g)
	errs = make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = ask(i) })
		if i < s.Group.InFlight { // alone, or it would take others along
			check.Eventually(t, "under way", func() bool {
				g.mu.Lock()
				defer g.mu.Unlock()
				return g.stopped == i+1
			})
		}
	}
	check.Eventually(t, "a crowd", func() bool { return s.Group.Len() == n })
	if after != nil {
		after()
	}
	close(g.open)
	all.Wait()
	return errs, g.pipelines
}

func numbered(i int) string { return fmt.Sprintf("lock:{%d}", i) }

// Callers that come while others are under way share a call, each with its own
// answer; a server that doesn't know the script is told it.
func TestCallersShareACall(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		const callers = 50
		for _, known := range []bool{true, false} {
			ctx, c := check.Context(t), s.idle(t, lease.Config{})
			theirs, err := s.idle(t, lease.Config{}).TryAcquire(ctx, numbered(20))
			check.Must(t, err)
			if know(t, s, c.store.Scripts); !known {
				check.Must(t, s.connect(t).ScriptFlush(ctx).Err())
			}
			locks := make([]*lease.Lock, callers)
			errs, pipelines := crowd(t, c, c.store.Asking, callers, func(i int) (err error) {
				locks[i], err = c.TryAcquire(ctx, numbered(i))
				return err
			}, nil)
			if known && pipelines != 1 {
				t.Errorf("%d calls for all who waited, want one", pipelines)
			}
			if !errors.Is(errs[20], lease.ErrHeld) {
				t.Errorf("what somebody else holds: %v", errs[20])
			}
			locks[20], errs[20] = theirs, nil
			for i, l := range locks {
				if errs[i] != nil {
					t.Error(errs[i])
				} else if err := l.Release(ctx); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// One caller's context ends while it waits with others: they have their locks,
// and of it nothing is left.
func TestOneOfTheCrowdGivesUp(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		ctx, c := check.Context(t), s.idle(t, lease.Config{})
		gone, cancel := context.WithCancel(ctx)
		errs, _ := crowd(t, c, c.store.Asking, 20, func(i int) error {
			mine := ctx
			if i == 10 {
				mine = gone
			}
			_, err := c.TryAcquire(mine, numbered(i))
			return err
		}, cancel)
		for i, err := range errs {
			if (i == 10) != errors.Is(err, context.Canceled) {
				t.Errorf("caller %d: %v", i, err)
			}
		}
		if n := s.connect(t).Exists(ctx, numbered(10)).Val(); n != 0 {
			t.Error("the one that gave up has left its lock")
		}
	})
}

// The answers to a crowd's releases are lost: each of them has been carried out,
// and says so. Where go-redis repeats them by itself (the twin) they find their
// work done and say "expired".
func TestLostReplyToACrowd(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		for _, once := range []bool{true, false} {
			ctx, p := check.Context(t), newWire(t, s)
			c := p.idle(t, lease.Config{})
			c.store.Erasing.Once = once
			know(t, s, c.store.Scripts)
			locks := make([]*lease.Lock, 20)
			for i := range locks {
				var err error
				if locks[i], err = c.TryAcquire(ctx, numbered(i)); err != nil {
					t.Fatal(err)
				}
			}
			var lost func() int
			errs, _ := crowd(t, c, c.store.Erasing, len(locks), func(i int) error { return locks[i].Release(ctx) },
				func() { lost = p.LoseAnswers(2*c.store.Erasing.Group.InFlight, with(c.store.Scripts.Release.Hash())) })
			if lost() == 0 {
				t.Fatal("no answer was lost")
			}
			expired := 0
			for i, err := range errs {
				if errors.Is(err, lease.ErrUnknown) {
					err = locks[i].Release(ctx)
				}
				if errors.Is(err, lease.ErrExpired) {
					expired++
				} else if err != nil {
					t.Error(err)
				}
			}
			if once != (expired == 0) {
				t.Errorf("once=%v: %d of %d say that they had expired", once, expired, len(locks))
			}
		}
	})
}

// When the server doesn't answer, who waits behind others is told so once they
// have had their time, and not after all those before it have had theirs.
func TestCrowdBeforeADeadServer(t *testing.T) {
	eachStore(t, func(t *testing.T, s server) {
		c := s.idle(t, lease.Config{Lease: soon, Timeout: 300 * time.Millisecond})
		know(t, s, c.store.Scripts)
		errs, pipelines := crowd(t, c, c.store.Asking, c.store.Asking.Group.InFlight+3*pipeline.Batch, func(i int) error {
			_, err := c.store.Scripts.Acquire.Run(check.Context(t), c.store.Asking, onredis.Keys(numbered(i)), "token", 1000, "1", "", 0, "").Int64()
			return err
		}, func() { time.Sleep(2 * c.leases.Timeout) }) // for longer than anybody is to wait
		failed := 0
		for _, err := range errs {
			if errors.Is(err, coalesce.ErrLate) || errors.Is(err, context.DeadlineExceeded) {
				failed++
			} else if err != nil {
				t.Error(err)
			}
		}
		if pipelines != 0 || failed < 3*pipeline.Batch {
			t.Errorf("%d failed and %d calls were sent for those who had waited too long", failed, pipelines)
		}
	})
}
