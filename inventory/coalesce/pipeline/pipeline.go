// Package pipeline sends concurrent calls to Redis in shared pipelines. Each call
// receives its own answer. The calls may belong to different SKUs or locks.
package pipeline

import (
	"context"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/coalesce"
)

// MaxBatch is the largest number of calls in one pipeline. All of them return when the last
// answer has arrived.
const MaxBatch = 100

// A Sender is a client whose Do, Eval and EvalSha share pipelines. A caller that finds
// few calls in flight sends its own. All other commands are sent as usual. A redis.Script
// runs on a Sender. The Sender does not call Do, Eval and EvalSha of its client, so a type
// that embeds a client and overrides one of them must use a hook of go-redis instead.
//
// In a cluster, each call is sent separately, because a node that does not answer would
// delay the calls to all other nodes.
type Sender struct {
	redis.UniversalClient
	Group   *coalesce.Group[command, struct{}]
	Timeout time.Duration // bounds each call
	Once    bool          // no retries by go-redis
}

// A command is the command of one caller, with the caller's context.
type command struct {
	*redis.Cmd
	ctx context.Context
}

// Single is implemented by the client of one server, and by types that embed that client.
type Single interface{ Options() *redis.Options }

// New returns a Sender on rdb. tasks, if not nil, counts its goroutines.
func New(rdb redis.UniversalClient, timeout time.Duration, tasks *coalesce.Tasks) *Sender {
	s := &Sender{UniversalClient: rdb, Timeout: timeout}
	inFlight, batch := math.MaxInt, 1
	if client, ok := rdb.(Single); ok {
		// Half of the connections: more calls in flight hide more of a slow network.
		inFlight, batch = max(client.Options().PoolSize/2, 1), MaxBatch
	}
	s.Group = coalesce.New(coalesce.Config[command, struct{}]{
		Call: s.call, MaxBatch: batch, MaxInFlight: inFlight, MaxWait: timeout, CallerRuns: true, Tasks: tasks,
	})
	return s
}

// Do sends a command, unless ctx has ended. If the command was sent, Do returns when the
// command has ended, even if ctx ends earlier. Otherwise a caller could undo the command
// before it runs. Do returns within twice the timeout, because it may wait as long for
// earlier calls.
func (s *Sender) Do(ctx context.Context, args ...any) *redis.Cmd {
	return s.send(ctx, redis.NewCmd(ctx, args...))
}

// Eval sends a script, as Do sends a command.
func (s *Sender) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return s.send(ctx, newEval(ctx, "eval", script, keys, args))
}

// EvalSha sends a script by its hash, as Do sends a command.
func (s *Sender) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	return s.send(ctx, newEval(ctx, "evalsha", sha1, keys, args))
}

func (s *Sender) send(ctx context.Context, cmd *redis.Cmd) *redis.Cmd {
	err := context.Cause(ctx)
	if err == nil {
		_, err = s.Group.Do(context.Background(), "", command{cmd, ctx}) // not ctx: wait for the end of the call
	}
	if err != nil {
		cmd.SetErr(err)
	}
	return cmd
}

// call sends a batch. A single command runs under its caller's context. A shared pipeline
// has its own timeout, because a caller that gives up must not end the commands of other
// callers. If a caller has given up already, its command is not sent. Each command has
// its own error.
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
		// go-redis checks only the first command of a pipeline for READONLY. If the first command
		// succeeds because it only reads, the client stays with a demoted master. If the rejected
		// command is sent again alone, the client finds the new master.
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

// newEval returns the command that runs a script, by source or by hash.
func newEval(ctx context.Context, command, script string, keys []string, argv []any) *redis.Cmd {
	args := make([]any, 0, 3+len(keys)+len(argv))
	args = append(args, command, script, len(keys))
	for _, key := range keys {
		args = append(args, key)
	}
	cmd := redis.NewCmd(ctx, append(args, argv...)...)
	if len(keys) > 0 {
		cmd.SetFirstKeyPos(3) // selects the node of a cluster
	}
	return cmd
}

// noRetry is a command that go-redis does not retry. A retried release of a lock could
// find the lock released by its first attempt, and report "not held".
type noRetry struct{ *redis.Cmd }

func (noRetry) NoRetry() bool { return true }
