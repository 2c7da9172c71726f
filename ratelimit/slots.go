package ratelimit

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// On a Redis Cluster (or a Ring) a script may touch one slot only. Each bucket's
// slot is the hash of its name and id. To force the buckets of one request into one
// slot would force everything that shares a bucket with it there as well. So each bucket
// gets one call for all who ask it, and all calls go out in one pipeline. If one
// bucket refuses a request, a second pipeline gives back what the others took.
//
// So "all or none" holds in the end, and not at every instant:
//   - Between the two pipelines the tokens are missing. Another request may be refused
//     that one call would have allowed. So a refusal is remembered for 100 ms only.
//   - If a node dies in between, or a give-back gets no answer, some buckets have
//     paid for a request that was refused.
//   - Where one of the calls fails, what it took stays taken.
//   - What a bucket's rate brought in meanwhile is not given back: the bucket may have
//     been full, and others have taken that.
//
// All of these refuse too much. None lets a bucket admit more than its bound.

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

// giveBack returns what was taken for requests that were not allowed, less what
// came in since (take.lua says why). Where a call failed it is unknown whether it
// took anything, so nothing is returned there; and if a give-back fails, its tokens
// are lost until they refill. Both err on the safe side, so there is no error to
// report.
func (l *Limiter) giveBack(ctx context.Context, calls [][]ask, shares [][]share, parts [][]answer, answers []answer) {
	var returns [][]ask
	for c := range calls {
		// One for all: each for itself would subtract what came in since.
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

// pipeline runs each call's script and decodes its answers. It sends the script's hash,
// and its source to a node that does not know the script. With once, go-redis does not
// send a call again after a timeout: taking twice errs on the safe side, giving back
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
			line := append(slices.Clone(script), len(keys))
			for _, key := range keys {
				line = append(line, key)
			}
			cmds[c] = redis.NewCmd(ctx, append(line, args...)...)
			cmds[c].SetFirstKeyPos(3)
			_ = pipe.Process(ctx, command{cmds[c], once}) // queues it, which doesn't fail
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

// command is a call of the script that go-redis may send again unless once is set.
type command struct {
	*redis.Cmd
	once bool
}

// NoRetry overrides redis.Cmd's.
func (c command) NoRetry() bool { return c.once }
