package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/coalesce/pipeline"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/lease"
)

// A gate is a hook of the Redis client. It blocks scripts that are sent alone until open is
// closed, and counts the pipelines that contain scripts.
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

// isScript reports whether cmd runs a script. A new connection sends other commands first.
func isScript(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), "eval") }

// crowd runs n concurrent calls of ask. A hook blocks the first calls, up to the sender's limit
// of calls in flight. All later calls wait for one pipeline. Once all calls have begun, crowd
// calls ready, which may be nil, and unblocks the first calls.
func crowd(t *testing.T, c *Client, s *pipeline.Sender, n int, ask func(i int) error, ready func()) (errs []error, pipelines int) {
	t.Helper()
	g := &gate{open: make(chan struct{})}
	c.store.RDB.AddHook(g)
	errs = make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = ask(i) })
		if i < s.Group.MaxInFlight { // wait for the call, so that it does not share a pipeline
			check.Eventually(t, "the call is in flight", func() bool {
				g.mu.Lock()
				defer g.mu.Unlock()
				return g.stopped == i+1
			})
		}
	}
	check.Eventually(t, "all calls have begun", func() bool { return s.Group.Len() == n })
	if ready != nil {
		ready()
	}
	close(g.open)
	all.Wait()
	return errs, g.pipelines
}

func numbered(i int) string { return fmt.Sprintf("lock:{%d}", i) }

// Callers that arrive while other calls are in flight share a pipeline, and each receives its
// own answer. A server without the script receives its source.
func TestConcurrentCallersSharePipeline(t *testing.T) {
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
				t.Errorf("pipelines for the waiting callers: got %d, want 1", pipelines)
			}
			if !errors.Is(errs[20], lease.ErrHeld) {
				t.Errorf("acquire a lock of another client: got error %v, want ErrHeld", errs[20])
			}
			locks[20], errs[20] = theirs, nil
			for i, l := range locks {
				if errs[i] != nil {
					t.Errorf("acquire the lock of caller %d: got error %v, want none", i, errs[i])
				} else if err := l.Release(ctx); err != nil {
					t.Errorf("release: got error %v, want none", err)
				}
			}
		}
	})
}

// The answers to several releases are lost. Each release reports success, because Redis has
// run it. In the broken twin, go-redis repeats the releases by itself, and the repeated ones
// report ErrExpired.
func TestReleasesSucceedAfterLostReplies(t *testing.T) {
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
					t.Fatalf("acquire lock %d: got error %v, want none", i, err)
				}
			}
			var lost func() int
			errs, _ := crowd(t, c, c.store.Erasing, len(locks), func(i int) error { return locks[i].Release(ctx) },
				func() {
					lost = p.LoseAnswers(2*c.store.Erasing.Group.MaxInFlight, with(c.store.Scripts.Release.Hash()))
				})
			if lost() == 0 {
				t.Fatal("answers of the server: got none lost, want one")
			}
			expired := 0
			for i, err := range errs {
				if errors.Is(err, lease.ErrUnknown) {
					err = locks[i].Release(ctx)
				}
				if errors.Is(err, lease.ErrExpired) {
					expired++
				} else if err != nil {
					t.Errorf("release with lost answers: got error %v, want none or ErrExpired", err)
				}
			}
			if once != (expired == 0) {
				t.Errorf("releases with lost answers, once=%v: got %d of %d with ErrExpired, want none only if once is set", once, expired, len(locks))
			}
		}
	})
}
