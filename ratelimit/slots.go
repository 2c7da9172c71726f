package ratelimit

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// On a Redis Cluster or a Ring, a script may use keys of one slot only. The slot of a
// bucket is the hash of its name and id. If the buckets of one request shared a slot, all
// buckets connected with them by other requests would have to be there as well. Therefore
// each bucket gets one call for all requests that name it, and one pipeline sends all
// calls. If one bucket refuses a request, a second pipeline gives back what the other
// buckets took.
//
// As a result, "all or none" holds in the end, but not at every instant:
//   - Between the two pipelines, tokens are missing, and another request may be
//     refused that a single call would have allowed. For this reason refusals are
//     remembered for at most 100 ms.
//   - If a node crashes in between, or the second pipeline fails, some buckets have
//     paid for a refused request.
//   - If a call of the first pipeline fails, the tokens that it took stay taken.
//   - Tokens that were refilled in the meantime are not given back, because the
//     bucket may have been full and other requests may have taken them.
//
// All of these refuse too much. None lets a bucket allow more than its bound.

// A share is the part of one request in the call of one bucket.
type share struct{ request, bucket int }

// takePerSlot is like take, with one call for each bucket.
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
	parts := l.pipeline(ctx, calls, false)

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
	l.giveBack(ctx, calls, shares, parts, answers)
	return answers
}

// weighsMore reports whether the answer a decides for the request rather than b. An error
// comes first, then the longest refusal, then the bucket with the fewest tokens.
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

// giveBack returns the tokens of refused requests, without the tokens refilled since
// (take.lua). If a call failed, it is unknown whether it took tokens, and giveBack
// returns none. If giveBack fails, the tokens are missing until they are refilled. Both
// cases refuse too much rather than too little, so giveBack returns no error.
func (l *Limiter) giveBack(ctx context.Context, calls [][]ask, shares [][]share, parts [][]answer, answers []answer) {
	var returns [][]ask
	for c := range calls {
		// One call for all requests, because each call subtracts what was refilled.
		back := ask{buckets: calls[c][0].buckets}
		for i, s := range shares[c] {
			if parts[c][i].taken && !answers[s.request].taken {
				back.cost -= calls[c][i].cost
				back.taken = parts[c][i].at
			}
		}
		if back.cost < 0 {
			returns = append(returns, []ask{back})
		}
	}
	if returns != nil {
		l.pipeline(ctx, returns, true)
	}
}

// pipeline runs the script once for each element of calls. It sends the script's hash,
// and then the source to nodes that do not know the script. If once is set, go-redis does
// not repeat a call after a timeout. Taking twice errs on the safe side, but giving back
// twice does not.
func (l *Limiter) pipeline(ctx context.Context, calls [][]ask, once bool) [][]answer {
	cmds := make([]*redis.Cmd, len(calls))
	for _, script := range [][]any{{"evalsha", takeScript.Hash()}, {"eval", takeSource}} {
		pipe := l.client.Pipeline()
		for c, asks := range calls {
			if cmds[c] != nil && !redis.HasErrorPrefix(cmds[c].Err(), "NOSCRIPT") {
				continue
			}
			keys, args := encode(l.config.Prefix, asks)
			cmdArgs := append(slices.Clone(script), len(keys))
			for _, key := range keys {
				cmdArgs = append(cmdArgs, key)
			}
			cmds[c] = redis.NewCmd(ctx, append(cmdArgs, args...)...)
			cmds[c].SetFirstKeyPos(3)
			_ = pipe.Process(ctx, command{cmds[c], once}) // only queues the command, and cannot fail
		}
		if pipe.Len() > 0 {
			_, _ = pipe.Exec(ctx) // each command has its own error
		}
	}
	answers := make([][]answer, len(calls))
	for c, cmd := range cmds {
		reply, err := cmd.Int64Slice()
		answers[c] = decode(reply, err, calls[c])
	}
	return answers
}

// A command is a call of the script. If once is set, go-redis does not repeat it.
type command struct {
	*redis.Cmd
	once bool
}

// NoRetry overrides the method of redis.Cmd.
func (c command) NoRetry() bool { return c.once }
