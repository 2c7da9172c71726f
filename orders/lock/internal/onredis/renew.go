package onredis

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/lease"
)

// Renew is lease.Store's: one pipeline.
func (s *Store) Renew(ctx context.Context, locks []*lease.Lock) []error {
	replies := s.renew(ctx, s.Scripts.Renew.EvalSha, locks)
	if slices.ContainsFunc(replies, unknownScript) {
		// go-redis doesn't send the source by itself within a pipeline. Some locks may
		// be renewed twice, which is as good as once.
		replies = s.renew(ctx, s.Scripts.Renew.Eval, locks)
	}
	errs := make([]error, len(locks))
	for i, reply := range replies {
		errs[i] = Verdict(reply.Int64())
	}
	return errs
}

func (s *Store) renew(
	ctx context.Context, eval func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd, locks []*lease.Lock,
) []*redis.Cmd {
	replies := make([]*redis.Cmd, len(locks))
	// The error of the whole is that of its first command, and each has its own.
	_, _ = s.RDB.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, l := range locks {
			replies[i] = eval(ctx, p, []string{l.Key()}, l.Token(), l.Lease().Milliseconds(), s.Own)
		}
		return nil
	})
	return replies
}

// unknownScript tells the answer of a server that has to be sent the source: it
// was restarted, or another node of the cluster has taken over.
func unknownScript(reply *redis.Cmd) bool {
	return redis.HasErrorPrefix(reply.Err(), "NOSCRIPT")
}
