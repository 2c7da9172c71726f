// Package pipeline has the calls of one moment travel to Redis together, each with an
// answer of its own: calls for one SKU and for another, or for one lock and another.
package pipeline

import (
	"context"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/coalesce"
)

// Batch is how many calls share a pipeline at most. The first of them hears its answer
// when the last one has.
const Batch = 100

// A Sender is a client whose Do, Eval and EvalSha share pipelines. A caller who finds few
// before it sends for itself. All other commands go their usual way. A redis.Script runs on it.
//
// In a cluster everybody sends for itself: one node that doesn't answer would
// hold up the calls for all others.
type Sender struct {
	redis.UniversalClient
	Group   *coalesce.Group[command, struct{}]
	Timeout time.Duration // of each call
	Once    bool          // go-redis must not repeat what is sent
}

// A command is one caller's, with its context.
type command struct {
	*redis.Cmd
	ctx context.Context
}

// Single is the client of one server, also where a program has embedded it in its own.
type Single interface{ Options() *redis.Options }

// New returns a Sender on rdb, whose goroutines tasks counts, where it is not nil.
func New(rdb redis.UniversalClient, timeout time.Duration, tasks *coalesce.Tasks) *Sender {
	s := &Sender{UniversalClient: rdb, Timeout: timeout}
	inFlight, batch := math.MaxInt, 1
	if one, is := rdb.(Single); is {
		// Half of its connections: the more are under way, the less a slow network costs.
		inFlight, batch = max(one.Options().PoolSize/2, 1), Batch
	}
	s.Group = coalesce.New(coalesce.Config[command, struct{}]{
		Call: s.call, Batch: batch, InFlight: inFlight, MaxWait: timeout, Self: true, Tasks: tasks,
	})
	return s
}

// Do sends a command, unless ctx has ended. What was sent has ended before Do returns,
// whatever became of ctx: what takes it back must not come before it. That is within
// twice the timeout: it may wait as long for calls before it.
func (s *Sender) Do(ctx context.Context, args ...any) *redis.Cmd {
	return s.send(ctx, redis.NewCmd(ctx, args...))
}

// Eval is Do for a script.
func (s *Sender) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return s.send(ctx, newEval(ctx, "eval", script, keys, args))
}

// EvalSha is Do for a script, by its hash.
func (s *Sender) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	return s.send(ctx, newEval(ctx, "evalsha", sha1, keys, args))
}

func (s *Sender) send(ctx context.Context, cmd *redis.Cmd) *redis.Cmd {
	err := context.Cause(ctx)
	if err == nil {
		_, err = s.Group.Do(context.Background(), "", command{cmd, ctx}) // not ctx: to the end of the call
	}
	if err != nil {
		cmd.SetErr(err)
	}
	return cmd
}

// call sends one caller's command under its own context. A call that others share
// runs under a time of its own: one that gives up must not take its neighbours
// along. The command of a caller who has given up before is not sent. Each command
// has its own error.
func (s *Sender) call(ctx context.Context, _ string, batch []*coalesce.Caller[command, struct{}]) {
	if len(batch) == 1 {
		ctx = batch[0].Q.ctx
	}
	if end, ends := ctx.Deadline(); !ends || time.Until(end) > s.Timeout {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Timeout)
		defer cancel()
	}
	if len(batch) == 1 {
		_ = s.Process(ctx, s.cmder(batch[0].Q))
		return
	}
	_, _ = s.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, c := range batch {
			if c.Q.ctx.Err() != nil {
				c.Q.SetErr(context.Cause(c.Q.ctx))
			} else {
				_ = p.Process(ctx, s.cmder(c.Q))
			}
		}
		return nil
	})
	for _, c := range batch {
		// go-redis judges a pipeline by its first command: a script that only reads is fine
		// on a master that was demoted. Sent alone, the others leave that server.
		if !s.Once && redis.HasErrorPrefix(c.Q.Err(), "READONLY") {
			_ = s.Process(ctx, c.Q.Cmd)
		}
	}
}

func (s *Sender) cmder(c command) redis.Cmder {
	if s.Once {
		return noRetry{c.Cmd}
	}
	return c.Cmd
}

// newEval is the call of a script, by its source or its hash.
func newEval(ctx context.Context, command, script string, keys []string, argv []any) *redis.Cmd {
	args := make([]any, 0, 3+len(keys)+len(argv))
	args = append(args, command, script, len(keys))
	for _, key := range keys {
		args = append(args, key)
	}
	cmd := redis.NewCmd(ctx, append(args, argv...)...)
	if len(keys) > 0 {
		cmd.SetFirstKeyPos(3) // which node of a cluster it is for
	}
	return cmd
}

// noRetry is a command that go-redis does not send again by itself. The release of a
// lock that is repeated unseen finds its own work done, and reads as "not held".
type noRetry struct{ *redis.Cmd }

func (noRetry) NoRetry() bool { return true }
