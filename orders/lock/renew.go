package lock

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Renew is the Store's: one pipeline.
func (s store) Renew(ctx context.Context, locks []*Lock) []error {
	replies := s.pipeline(ctx, "evalsha", s.scripts.renew.Hash(), locks)
	if places, again := unknownTo(replies, locks); len(again) > 0 {
		// go-redis doesn't recover from NOSCRIPT within a pipeline.
		for i, reply := range s.pipeline(ctx, "eval", s.scripts.renew.source, again) {
			replies[places[i]] = reply
		}
	}
	errs := make([]error, len(locks))
	for i, reply := range replies {
		n, err := reply.Int64()
		if err == nil {
			err = verdict(n)
		}
		errs[i] = err
	}
	return errs
}

func (s store) pipeline(ctx context.Context, command, script string, locks []*Lock) []*redis.Cmd {
	replies := make([]*redis.Cmd, len(locks))
	// The error of the whole is that of its first command, and each has its own.
	_, _ = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, l := range locks {
			replies[i] = newEval(ctx, command, script, []string{l.key}, []any{l.token, s.cfg.Lease.Milliseconds()})
			_ = p.Process(ctx, replies[i])
		}
		return nil
	})
	return replies
}

// unknownTo picks the locks whose server didn't know the script, with their
// places among the replies.
func unknownTo(replies []*redis.Cmd, locks []*Lock) (places []int, again []*Lock) {
	for i, reply := range replies {
		if unknownScript(reply.Err()) {
			places, again = append(places, i), append(again, locks[i])
		}
	}
	return places, again
}
