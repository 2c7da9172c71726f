package onredis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/lease"
)

// Renew implements lease.Store with one pipeline. If a server does not have the script,
// after a restart or a failover, a second pipeline sends the source.
func (s *Store) Renew(ctx context.Context, locks []*lease.Lock) []error {
	replies, errs := make([]*redis.Cmd, len(locks)), make([]error, len(locks))
	renew := s.Scripts.Renew
	for _, eval := range []func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd{renew.EvalSha, renew.Eval} {
		// Pipelined returns the error of the first command; each command has its own.
		_, _ = s.RDB.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, l := range locks {
				if replies[i] == nil || redis.HasErrorPrefix(replies[i].Err(), "NOSCRIPT") {
					replies[i] = eval(ctx, p, []string{l.Key()}, l.Token(), l.Lease().Milliseconds(), s.Extra)
				}
			}
			return nil
		})
	}
	for i, reply := range replies {
		errs[i] = ReplyError(reply.Int64())
	}
	return errs
}
