package redlock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/coalesce"
	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

var (
	//go:embed vote.lua
	voteSource string
	//go:embed drop.lua
	dropSource string

	voteScript, dropScript = redis.NewScript(onredis.ValueSource + voteSource), redis.NewScript(dropSource)
)

// masters are asked all at once, and a quorum of them decides.
type masters struct {
	all  []*onredis.Store
	late coalesce.Tasks // calls, some of which nobody waits for any more; each ends within its timeout
}

func newMasters(all []redis.UniversalClient, cfg lease.Config) *masters {
	ms := &masters{}
	for _, rdb := range all {
		s := onredis.New(rdb, cfg)
		s.Scripts.Acquire, s.Scripts.Release, s.Keys = voteScript, dropScript, keys
		ms.all = append(ms.all, s)
	}
	return ms
}

func (ms *masters) quorum() int { return len(ms.all)/2 + 1 }

// errPending is the vote of a master that has not answered yet.
var errPending = errors.New("not yet")

// ask asks all masters at once, and returns what a quorum says as soon as the answers
// that are missing cannot change it.
func (ms *masters) ask(ctx context.Context, one func(ctx context.Context, s *onredis.Store) error) (err error) {
	type answer struct {
		from int
		err  error
	}
	ctx = context.WithoutCancel(ctx) // the caller's may end with the call
	answers, votes := make(chan answer, len(ms.all)), make([]error, len(ms.all))
	for i, s := range ms.all {
		votes[i] = errPending
		ms.late.Go(func() {
			limited, cancel := context.WithTimeout(ctx, s.Config.Timeout)
			defer cancel()
			answers <- answer{i, one(limited, s)}
		})
	}
	for range ms.all {
		a := <-answers
		votes[a.from] = a.err
		if err = verdicts(votes, ms.quorum()); err == nil || isOutcome(err) {
			return err
		}
	}
	return err
}

// askAll asks all masters at once, and waits for all answers.
func (ms *masters) askAll(one func(i int, s *onredis.Store) error) []error {
	votes := make([]error, len(ms.all))
	var all sync.WaitGroup
	for i, s := range ms.all {
		all.Go(func() { votes[i] = one(i, s) })
	}
	all.Wait()
	return votes
}

func isOutcome(err error) bool {
	return errors.Is(err, lease.ErrHeld) || errors.Is(err, lease.ErrExpired) || errors.Is(err, lease.ErrNotMine)
}

// verdicts is what a quorum of the votes says: nil if so many are; one of the
// outcomes if too few are left without it; else, not known.
func verdicts(votes []error, quorum int) error {
	yes, no, outcome, unknown := 0, 0, error(nil), []error(nil)
	for _, err := range votes {
		switch {
		case err == nil:
			yes++
		case isOutcome(err):
			if no++; outcome == nil || errors.Is(err, lease.ErrNotMine) {
				outcome = err
			}
		default:
			unknown = append(unknown, err)
		}
	}
	switch {
	case yes >= quorum:
		return nil
	case no > len(votes)-quorum:
		return outcome
	}
	return fmt.Errorf("%d of %d masters did not answer: %w", len(unknown), len(votes), errors.Join(unknown...))
}

// keys are those of vote.lua and drop.lua.
func keys(key, token string) []string { return []string{key, onredis.Tagged(key) + ":gone:" + token} }

// Renew is lease.Store's: a lock is renewed where a majority has done so. A master
// that has lost a vote which the majority confirms is given it again: else masters
// that are emptied one after the other, never two at a time, would lose the lock.
func (ms *masters) Renew(ctx context.Context, locks []*lease.Lock) []error {
	answers := make([][]error, len(ms.all))
	ms.askAll(func(i int, s *onredis.Store) error { answers[i] = s.Renew(ctx, locks); return nil })
	errs := make([]error, len(locks))
	for i := range locks {
		votes := make([]error, len(ms.all))
		for n := range answers {
			votes[n] = answers[n][i]
		}
		errs[i] = verdicts(votes, ms.quorum())
	}
	ms.askAll(func(n int, s *onredis.Store) error {
		for i, l := range locks {
			if errs[i] == nil && errors.Is(answers[n][i], lease.ErrExpired) {
				_, _ = s.Ask(ctx, l.Key(), l.Token(), l.Lease()) // the next renewal tries again
			}
		}
		return nil
	})
	return errs
}

// Release is lease.Store's: everywhere, and done if a majority has done so.
func (ms *masters) Release(ctx context.Context, l *lease.Lock) (doubt bool, err error) {
	return ms.erase(ctx, l.Key(), l.Token())
}

func (ms *masters) erase(ctx context.Context, key, token string) (bool, error) {
	var doubts atomic.Bool
	err := ms.ask(ctx, func(ctx context.Context, s *onredis.Store) error {
		doubt, err := s.Erase(ctx, key, token)
		if doubt {
			doubts.Store(true)
		}
		return err
	})
	if err != nil && !errors.Is(err, lease.ErrExpired) && !errors.Is(err, lease.ErrNotMine) {
		err = fmt.Errorf("%w: %w", lease.ErrUnknown, err)
	}
	return doubts.Load(), err
}
