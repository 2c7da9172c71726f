package ratelimit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// delay is a go-redis hook that counts script calls and delays them until open is closed.
// If alone is set, there is no server: the hook answers each call as if each bucket had
// one token.
type delay struct {
	open  chan struct{}
	slow  time.Duration // if above 0, the delay of each call
	alone bool

	mu       sync.Mutex
	calls    int // calls so far
	inside   int // calls that are delayed now
	peak     int // largest number of calls delayed at once
	keys     int // keys of the largest call
	commands []redis.Cmder
}

func newDelay(client redis.UniversalClient) *delay {
	g := &delay{open: make(chan struct{})}
	client.AddHook(g)
	return g
}

func (g *delay) DialHook(next redis.DialHook) redis.DialHook {
	return next
}

func (g *delay) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := g.pass(ctx, cmd); err != nil {
			cmd.SetErr(err)
			return err
		}
		if g.alone {
			reply := []any{int64(0)}
			for range cmd.Args()[2].(int) {
				reply = append(reply, int64(1), int64(1), int64(0), int64(0), int64(0))
			}
			cmd.(*redis.Cmd).SetVal(reply)
			return nil
		}
		return next(ctx, cmd)
	}
}

func (g *delay) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := g.pass(ctx, cmds...); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

func (g *delay) pass(ctx context.Context, cmds ...redis.Cmder) error {
	if cmds[0].Name() != "evalsha" {
		return nil // a command with which a connection begins
	}
	g.mu.Lock()
	g.calls++
	g.inside++
	g.peak = max(g.peak, g.inside)
	for _, cmd := range cmds {
		if args := cmd.Args(); len(args) > 2 {
			if n, ok := args[2].(int); ok {
				g.keys = max(g.keys, n)
			}
		}
	}
	g.commands = append(g.commands, cmds...)
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.inside--
		g.mu.Unlock()
	}()
	var late <-chan time.Time
	if g.slow > 0 {
		late = time.After(g.slow)
	}
	select {
	case <-late:
		return nil
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// holds returns the number of calls that are delayed now.
func (g *delay) holds() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside
}

// seen returns the number of calls so far, the largest number delayed at once, and the
// number of keys of the largest call.
func (g *delay) seen() (calls, peak, keys int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls, g.peak, g.keys
}

// failing is a hook that loses the answers to the calls of one key.
type failing struct{ key string }

var errLost = errors.New("answer lost")

func (failing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (failing) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (f failing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if args := cmd.Args(); len(args) > 3 && args[3] == f.key {
				cmd.SetErr(errLost)
			}
		}
		return err
	}
}
