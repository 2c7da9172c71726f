package onredis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/lease"
)

// Renew is lease.Store's: one pipeline, and a second one for a server that has to be sent
// the source, because it was restarted or another node of the cluster has taken over.
func (s *Store) Renew(ctx context.Context, locks []*lease.Lock) []error {
	replies, errs := make([]*redis.Cmd, len(locks)), make([]error, len(locks))
	renew := s.Scripts.Renew
	for _, eval := range []func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd{renew.EvalSha, renew.Eval} {
		// The error of the whole is that of its first command, and each has its own.
		_, _ = s.RDB.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, l := range locks {
				if replies[i] == nil || redis.HasErrorPrefix(replies[i].Err(), "NOSCRIPT") {
					replies[i] = eval(ctx, p, []string{l.Key()}, l.Token(), l.Lease().Milliseconds(), s.Own)
				}
			}
			return nil
		})
	}
	for i, reply := range replies {
		errs[i] = Verdict(reply.Int64())
	}
	return errs
}
