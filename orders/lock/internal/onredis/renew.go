package onredis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/lease"
)

// Renew is lease.Store's: one pipeline.
func (s *Store) Renew(ctx context.Context, locks []*lease.Lock) []error {
	replies := s.pipeline(ctx, redis.Pipeliner.EvalSha, s.Scripts.Renew.Hash(), locks)
	if places, again := unknownTo(replies, locks); len(again) > 0 {
		// go-redis doesn't recover from NOSCRIPT within a pipeline.
		for i, reply := range s.pipeline(ctx, redis.Pipeliner.Eval, s.Scripts.Renew.source, again) {
			replies[places[i]] = reply
		}
	}
	errs := make([]error, len(locks))
	for i, reply := range replies {
		n, err := reply.Int64()
		if err == nil {
			err = Verdict(n)
		}
		errs[i] = err
	}
	return errs
}

func (s *Store) pipeline(
	ctx context.Context, eval func(redis.Pipeliner, context.Context, string, []string, ...any) *redis.Cmd, script string, locks []*lease.Lock,
) []*redis.Cmd {
	replies := make([]*redis.Cmd, len(locks))
	// The error of the whole is that of its first command, and each has its own.
	_, _ = s.RDB.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, l := range locks {
			replies[i] = eval(p, ctx, script, []string{l.Key()}, l.Token(), l.Lease().Milliseconds())
		}
		return nil
	})
	return replies
}

// unknownTo picks the locks whose server didn't know the script, with their
// places among the replies.
func unknownTo(replies []*redis.Cmd, locks []*lease.Lock) (places []int, again []*lease.Lock) {
	for i, reply := range replies {
		if unknownScript(reply.Err()) {
			places, again = append(places, i), append(again, locks[i])
		}
	}
	return places, again
}
