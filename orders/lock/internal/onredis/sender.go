package onredis

import (
	"context"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/coalesce"
)

// Batch is how many calls share a pipeline at most, so that it is answered within
// the time of one.
const Batch = 100

// A Sender sends what many callers want at the same moment in one pipeline. A
// caller who finds few before it sends for itself.
//
// In a cluster everybody sends for itself: one node that doesn't answer would
// hold up the locks of all others.
type Sender struct {
	*coalesce.Group[command, int64]
	rdb     redis.UniversalClient
	Timeout time.Duration // of each call
	Once    bool          // go-redis must not repeat what is sent
}

// A command is one caller's, with its context.
type command struct {
	*redis.Cmd
	ctx context.Context
}

func newSender(rdb redis.UniversalClient, timeout time.Duration, once bool) *Sender {
	s := &Sender{rdb: rdb, Timeout: timeout, Once: once}
	inFlight, batch := math.MaxInt, 1
	if one, is := rdb.(single); is {
		// Half of its connections: the more are under way, the less a slow way costs.
		inFlight, batch = max(one.Options().PoolSize/2, 1), Batch
	}
	s.Group = coalesce.New(coalesce.Options[command, int64]{
		Call: s.call, Batch: batch, InFlight: inFlight, MaxWait: timeout, Self: true,
	})
	return s
}

// Eval runs a script by its hash, or by its source where the server doesn't know
// that. What was sent has ended before Eval returns, whatever became of ctx: what
// takes it back must not come before it. That is within twice the timeout.
func (s *Sender) Eval(ctx context.Context, sc Script, keys []string, argv ...any) (int64, error) {
	whole := context.Background() // to the end of the call
	n, err := s.Do(whole, "", command{newEval(ctx, "evalsha", sc.Hash(), keys, argv), ctx})
	if unknownScript(err) {
		n, err = s.Do(whole, "", command{newEval(ctx, "eval", sc.source, keys, argv), ctx})
	}
	return n, err
}

// call sends one caller's command under its own context. A call that others share
// runs under a time of its own: one that gives up must not take its neighbours
// along. Who has given up before is not sent.
func (s *Sender) call(ctx context.Context, _ string, batch []*coalesce.Caller[command, int64]) {
	if len(batch) == 1 {
		ctx = batch[0].Q.ctx
	}
	if end, ends := ctx.Deadline(); !ends || time.Until(end) > s.Timeout {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Timeout)
		defer cancel()
	}
	if len(batch) == 1 {
		_ = s.rdb.Process(ctx, s.cmder(batch[0].Q)) // the command has the error
	} else {
		// The error of the whole is that of its first command, and each has its own.
		_, _ = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, c := range batch {
				if c.Q.ctx.Err() != nil {
					c.Q.SetErr(context.Cause(c.Q.ctx))
				} else {
					_ = p.Process(ctx, s.cmder(c.Q))
				}
			}
			return nil
		})
	}
	for _, c := range batch {
		c.Answer, c.Err = c.Q.Int64()
	}
}

func (s *Sender) cmder(c command) redis.Cmder {
	if s.Once {
		return noRetry{c.Cmd}
	}
	return c.Cmd
}

func newEval(ctx context.Context, command, script string, keys []string, argv []any) *redis.Cmd {
	args := make([]any, 0, 3+len(keys)+len(argv))
	args = append(args, command, script, len(keys))
	for _, key := range keys {
		args = append(args, key)
	}
	cmd := redis.NewCmd(ctx, append(args, argv...)...)
	cmd.SetFirstKeyPos(3) // which node of a cluster it is for
	return cmd
}

// noRetry is a command that go-redis does not send again by itself. A release
// that is repeated unseen finds its own work done and reads as "not held": erase
// must know of every attempt.
type noRetry struct{ *redis.Cmd }

func (noRetry) NoRetry() bool { return true }
