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

// masters asks all masters at once and lets a quorum decide.
type masters struct {
	all  []*onredis.Store
	late coalesce.Tasks // running calls; each ends within its timeout, even after ask has returned
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
var errPending = errors.New("the master has not answered yet")

// ask calls one for all masters at once, and returns the quorum's decision as soon as the
// missing answers cannot change it.
func (ms *masters) ask(ctx context.Context, one func(ctx context.Context, s *onredis.Store) error) (err error) {
	type answer struct {
		from int
		err  error
	}
	ctx = context.WithoutCancel(ctx) // late calls outlive the caller's context
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
		if err = decide(votes, ms.quorum()); err == nil || isOutcome(err) {
			return err
		}
	}
	return err
}

// askAll calls one for all masters at once, and waits for all answers.
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

// decide returns the decision of the votes: nil if a quorum agrees, and an outcome such as
// lease.ErrHeld if the rejections make a quorum impossible. Otherwise the decision is
// unknown, and decide returns the errors of the masters that did not answer.
func decide(votes []error, quorum int) error {
	granted, rejected, outcome, unknown := 0, 0, error(nil), []error(nil)
	for _, err := range votes {
		switch {
		case err == nil:
			granted++
		case isOutcome(err):
			if rejected++; outcome == nil || errors.Is(err, lease.ErrNotMine) {
				outcome = err
			}
		default:
			unknown = append(unknown, err)
		}
	}
	switch {
	case granted >= quorum:
		return nil
	case rejected > len(votes)-quorum:
		return outcome
	}
	return fmt.Errorf("%d of %d masters did not answer: %w", len(unknown), len(votes), errors.Join(unknown...))
}

// keys returns the KEYS of vote.lua and drop.lua.
func keys(key, token string) []string { return []string{key, onredis.Tagged(key) + ":gone:" + token} }

// Renew implements lease.Store: a lock is renewed if a majority has renewed it. If a master
// has lost a vote that the majority confirms, Renew restores the vote. Otherwise a lock
// would be lost after masters had lost their data one at a time.
func (ms *masters) Renew(ctx context.Context, locks []*lease.Lock) []error {
	answers := make([][]error, len(ms.all))
	ms.askAll(func(i int, s *onredis.Store) error { answers[i] = s.Renew(ctx, locks); return nil })
	errs := make([]error, len(locks))
	for i := range locks {
		votes := make([]error, len(ms.all))
		for n := range answers {
			votes[n] = answers[n][i]
		}
		errs[i] = decide(votes, ms.quorum())
	}
	ms.askAll(func(n int, s *onredis.Store) error {
		for i, l := range locks {
			if errs[i] == nil && errors.Is(answers[n][i], lease.ErrExpired) {
				_, _ = s.Ask(ctx, l.Key(), l.Token(), l.Lease()) // if this fails, the next renewal retries
			}
		}
		return nil
	})
	return errs
}

// Release implements lease.Store. It releases the lock on all masters, and succeeds if a
// majority has released it.
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
