package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Redlock takes locks on the majority of several Redis masters that know
// nothing of each other, so that the loss of a minority neither blocks nor frees
// a lock. (Salvatore Sanfilippo, "Distributed locks with Redis".)
//
// All masters are asked at the same time, each for Config.Timeout at most; the
// lock is held if a majority says so and the lease, counted from before the
// first was asked, less the drift, is not over. Else it is given back
// everywhere, also where no answer came from. Waiters ask again, by
// Config.Retry, in no order: there is no line that all masters agree on. Of two
// who try at once both may find a minority only: both get ErrHeld then.
//
// Its limits. Each master counts the lease on its own clock: one that jumps
// frees its vote early, and a second holder may find a majority. One that
// restarts without what it had granted does the same, unless it stays away for
// a lease. And no lock knows of a holder's pause between looking at its context
// and writing. What is written under it still needs a fence (see Fence).
type Redlock struct {
	asker
	nodes []store
}

var _ Locker = (*Redlock)(nil)

// NewRedlock returns a Redlock over independent masters: an odd number of them,
// best three or five. Their clients should have ContextTimeoutEnabled, and
// DialerRetries of 1 lest one that is down use up the time of every attempt.
//
// Config.Timeout is 100 ms by default, at most a fifth of the lease, and
// Config.Retry is Backoff from 5 ms to 100 ms. It panics on a Config that
// Validate refuses, and without masters.
func NewRedlock(masters []redis.UniversalClient, cfg Config) *Redlock {
	if len(masters) == 0 {
		panic("lock: Redlock without masters")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = min(cfg.WithDefaults().Lease/5, 100*time.Millisecond)
	}
	if cfg.Retry == nil {
		cfg.Retry = Backoff(5*time.Millisecond, 100*time.Millisecond)
	}
	r := &Redlock{}
	for _, rdb := range masters {
		r.nodes = append(r.nodes, newStore(rdb, cfg))
	}
	r.asker = asker{NewLeases(r, cfg), r.attempt}
	return r
}

func (r *Redlock) quorum() int { return len(r.nodes)/2 + 1 }

func (r *Redlock) attempt(ctx context.Context, key string, began time.Time) (*Lock, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	token, sent := rand.Text(), time.Now()
	votes := r.ask(func(_ int, s store) error { return s.vote(ctx, key, token) })
	err := verdicts(votes, r.quorum())
	if err == nil {
		var l *Lock
		if l, err = r.leases.Hold(ctx, key, token, sent, began); err == nil {
			return l, nil
		}
	}
	// Everywhere: a master whose answer was lost may have granted it.
	_, eraseErr := r.erase(ctx, key, token)
	switch {
	case errors.Is(err, ErrHeld) || errors.Is(err, ErrStopped):
		return nil, err
	case ctx.Err() != nil:
		err = errors.Join(context.Cause(ctx), err)
	}
	if errors.Is(eraseErr, ErrUnknown) {
		err = fmt.Errorf("%w (and not taken back: %w)", err, eraseErr)
	}
	return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
}

// vote is one master's: nil or ErrHeld; any other error is none.
func (s store) vote(ctx context.Context, key, token string) error {
	left, err := s.question(ctx, key, token, "", 0)
	if err == nil && left != 0 {
		err = ErrHeld
	}
	return err
}

// ask asks all masters at once, and waits for all answers.
func (r *Redlock) ask(one func(i int, s store) error) []error {
	votes := make([]error, len(r.nodes))
	var all sync.WaitGroup
	for i, s := range r.nodes {
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
		case errors.Is(err, ErrHeld), errors.Is(err, ErrExpired), errors.Is(err, ErrNotMine):
			if no++; outcome == nil || errors.Is(err, ErrNotMine) {
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

// Renew is the Store's: a lock is renewed where a majority has done so.
func (r *Redlock) Renew(ctx context.Context, locks []*Lock) []error {
	answers := make([][]error, len(r.nodes))
	r.ask(func(i int, s store) error { answers[i] = s.Renew(ctx, locks); return nil })
	errs := make([]error, len(locks))
	for i := range locks {
		votes := make([]error, len(r.nodes))
		for n := range answers {
			votes[n] = answers[n][i]
		}
		errs[i] = verdicts(votes, r.quorum())
	}
	return errs
}

// Release is the Store's: everywhere, and done if a majority has done so.
func (r *Redlock) Release(ctx context.Context, l *Lock) (doubt bool, err error) {
	return r.erase(ctx, l.key, l.token)
}

func (r *Redlock) erase(ctx context.Context, key, token string) (bool, error) {
	doubts := make([]bool, len(r.nodes))
	votes := r.ask(func(i int, s store) (err error) { doubts[i], err = s.erase(ctx, key, token); return err })
	err := verdicts(votes, r.quorum())
	if err != nil && !errors.Is(err, ErrExpired) && !errors.Is(err, ErrNotMine) {
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return slices.Contains(doubts, true), err
}

// Remaining is the Locker's: how long a majority says that the lock is taken.
// It fails if a majority does not answer.
func (r *Redlock) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	answers := make([][]time.Duration, len(r.nodes))
	errs := r.ask(func(i int, s store) (err error) { answers[i], err = s.remaining(ctx, keys); return err })
	if err := verdicts(errs, r.quorum()); err != nil {
		return nil, err
	}
	left := make([]time.Duration, len(keys))
	for k := range keys {
		left[k] = r.taken(answers, k)
	}
	return left, nil
}

// taken is the longest time for which a majority has the key taken. Who did not
// answer is taken to agree: it is safer to wait than to believe it free.
func (r *Redlock) taken(answers [][]time.Duration, key int) (longest time.Duration) {
	for _, candidate := range answers {
		if candidate == nil || candidate[key] <= longest {
			continue
		}
		votes := 0
		for _, a := range answers {
			if a == nil || a[key] >= candidate[key] {
				votes++
			}
		}
		if votes >= r.quorum() {
			longest = candidate[key]
		}
	}
	return longest
}
