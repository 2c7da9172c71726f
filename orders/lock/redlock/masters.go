package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// masters are asked all at once, and a quorum of them decides.
type masters []*onredis.Store

func (ms masters) quorum() int { return len(ms)/2 + 1 }

// ask asks all masters at once, and waits for all answers.
func (ms masters) ask(one func(i int, s *onredis.Store) error) []error {
	votes := make([]error, len(ms))
	var all sync.WaitGroup
	for i, s := range ms {
		all.Go(func() { votes[i] = one(i, s) })
	}
	all.Wait()
	return votes
}

// verdicts is what a quorum of the votes says: nil if so many are; one of the
// outcomes if too few are left without it; else, not known.
func verdicts(votes []error, quorum int) error {
	yes, no, outcome, unknown := 0, 0, error(nil), []error(nil)
	for _, err := range votes {
		switch {
		case err == nil:
			yes++
		case errors.Is(err, lease.ErrHeld), errors.Is(err, lease.ErrExpired), errors.Is(err, lease.ErrNotMine):
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

// Renew is lease.Store's: a lock is renewed where a majority has done so.
func (ms masters) Renew(ctx context.Context, locks []*lease.Lock) []error {
	answers := make([][]error, len(ms))
	ms.ask(func(i int, s *onredis.Store) error { answers[i] = s.Renew(ctx, locks); return nil })
	errs := make([]error, len(locks))
	for i := range locks {
		votes := make([]error, len(ms))
		for n := range answers {
			votes[n] = answers[n][i]
		}
		errs[i] = verdicts(votes, ms.quorum())
	}
	return errs
}

// Release is lease.Store's: everywhere, and done if a majority has done so.
func (ms masters) Release(ctx context.Context, l *lease.Lock) (doubt bool, err error) {
	return ms.erase(ctx, l.Key(), l.Token())
}

func (ms masters) erase(ctx context.Context, key, token string) (bool, error) {
	doubts := make([]bool, len(ms))
	votes := ms.ask(func(i int, s *onredis.Store) (err error) { doubts[i], err = s.Erase(ctx, key, token); return err })
	err := verdicts(votes, ms.quorum())
	if err != nil && !errors.Is(err, lease.ErrExpired) && !errors.Is(err, lease.ErrNotMine) {
		err = fmt.Errorf("%w: %w", lease.ErrUnknown, err)
	}
	return slices.Contains(doubts, true), err
}
