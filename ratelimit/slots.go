package ratelimit

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// On a Redis Cluster (or a Ring) a script may touch one slot only, and buckets
// lie where their names hash to: forcing a request's buckets into one slot
// would force everything they share into it as well. So each bucket gets one
// call for all who ask it, all calls go out in one pipeline, and a request that
// one bucket refuses gives back what the others took, in a second one.
//
// All or none therefore holds in the end, and not at every instant:
//   - between the two, the tokens are missing: a neighbour may be refused that
//     one call would have allowed. So a refusal is believed for 100 ms only.
//   - a node that dies in between, or a give-back that gets no answer, has taken
//     from some buckets for a request that was refused.
//   - where one of the calls fails, what it took stays taken.
//   - what a bucket's rate brought in that moment is not given back: it may have
//     been full, and others have taken that.
//
// Never the other way round: each bucket admits within its bound at every
// instant.

// share is one request's part in one bucket's call.
type share struct{ request, bucket int }

// takePerSlot does what take does, with one call per bucket.
func (l *Limiter) takePerSlot(ctx context.Context, asks []ask) []answer {
	var (
		calls  [][]ask
		shares [][]share
		callOf = make(map[Bucket]int, len(asks))
	)
	for r, a := range asks {
		for i, b := range a.buckets {
			c, known := callOf[b]
			if !known {
				c = len(calls)
				callOf[b] = c
				calls, shares = append(calls, nil), append(shares, nil)
			}
			calls[c] = append(calls[c], ask{cost: a.cost, buckets: []Bucket{b}, timeout: a.timeout})
			shares[c] = append(shares[c], share{request: r, bucket: i})
		}
	}
	parts, at := l.pipeline(ctx, calls, l.evalShaThenEval)

	answers := make([]answer, len(asks))
	decided := make([]bool, len(asks))
	for c := range calls {
		for i, s := range shares[c] {
			part := parts[c][i]
			part.bucket = s.bucket
			if !decided[s.request] || weighsMore(part, answers[s.request]) {
				answers[s.request], decided[s.request] = part, true
			}
		}
	}
	l.giveBack(ctx, calls, shares, parts, at, answers)
	return answers
}

// weighsMore tells which of two buckets' answers decides for the request: an
// error, else the longest refusal, else the bucket with least left.
func weighsMore(a, b answer) bool {
	switch {
	case a.err != nil || b.err != nil:
		return b.err == nil
	case !a.taken:
		return b.taken || a.wait > b.wait
	default:
		return b.taken && a.left < b.left
	}
}

// giveBack returns what was taken, at these moments, for requests that were not
// allowed, less what came in since (take.lua says why). Where a call failed it
// is unknown whether it took anything, so nothing is returned there; and if a
// give-back fails, its tokens are lost until they refill. Both err on the safe
// side, so there is no error to report.
func (l *Limiter) giveBack(ctx context.Context, calls [][]ask, shares [][]share, parts [][]answer, at []int64, answers []answer) {
	var returns [][]ask
	for c := range calls {
		// One for all: each for itself would be less what came in since.
		back := ask{buckets: calls[c][0].buckets, taken: at[c]}
		for i, s := range shares[c] {
			if parts[c][i].taken && !answers[s.request].taken {
				back.cost -= calls[c][i].cost
			}
		}
		if back.cost < 0 {
			returns = append(returns, []ask{back})
		}
	}
	if returns != nil {
		l.pipeline(ctx, returns, l.evalShaOnce)
	}
}

// pipeline runs each call's script and decodes its answers and its moment.
func (l *Limiter) pipeline(ctx context.Context, calls [][]ask, run func(context.Context, [][]ask) []*redis.Cmd) (answers [][]answer, at []int64) {
	answers, at = make([][]answer, len(calls)), make([]int64, len(calls))
	for c, cmd := range run(ctx, calls) {
		reply, err := cmd.Int64Slice()
		answers[c], at[c] = decode(reply, err, calls[c])
	}
	return answers, at
}

// evalShaThenEval pipelines the calls by the script's hash, and those for a
// node that doesn't know it once more by its text.
func (l *Limiter) evalShaThenEval(ctx context.Context, calls [][]ask) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(calls))
	pipe := l.client.Pipeline()
	for c, asks := range calls {
		keys, args := encode(l.config.Prefix, asks)
		cmds[c] = takeScript.EvalSha(ctx, pipe, keys, args...)
	}
	// Each command carries its own error; Exec's is only the first of them.
	_, _ = pipe.Exec(ctx)

	again := l.client.Pipeline()
	for c, asks := range calls {
		if redis.HasErrorPrefix(cmds[c].Err(), "NOSCRIPT") {
			keys, args := encode(l.config.Prefix, asks)
			cmds[c] = takeScript.Eval(ctx, again, keys, args...)
		}
	}
	if again.Len() > 0 {
		_, _ = again.Exec(ctx)
	}
	return cmds
}

// evalShaOnce pipelines calls that give back. They must not be sent again
// after a timeout: taking twice errs on the safe side, giving back twice
// doesn't.
func (l *Limiter) evalShaOnce(ctx context.Context, calls [][]ask) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(calls))
	pipe := l.client.Pipeline()
	for c, asks := range calls {
		keys, args := encode(l.config.Prefix, asks)
		line := []any{"evalsha", takeScript.Hash(), len(keys)}
		for _, key := range keys {
			line = append(line, key)
		}
		cmds[c] = redis.NewCmd(ctx, append(line, args...)...)
		cmds[c].SetFirstKeyPos(3)
		if err := pipe.Process(ctx, once{cmds[c]}); err != nil {
			cmds[c].SetErr(fmt.Errorf("queueing a give-back: %w", err))
		}
	}
	_, _ = pipe.Exec(ctx)
	return cmds
}

// once is a command that go-redis does not send a second time.
type once struct{ *redis.Cmd }

// NoRetry overrides redis.Cmd's.
func (once) NoRetry() bool { return true }
