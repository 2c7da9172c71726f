// Package redlock takes locks on the majority of several Redis masters.
package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// A Client takes locks on the majority of several Redis masters that know
// nothing of each other, so that the loss of a minority neither blocks nor frees
// a lock. (Salvatore Sanfilippo, "Distributed locks with Redis".)
//
// All masters are asked at the same time, each for Config.Timeout at most, and a
// majority decides: nobody waits for a master that hangs. The lock is held if a
// majority says so and the lease, counted from before the first was asked, less
// the drift, is not over. Else it is given back everywhere, also where no answer
// came from, and a vote that arrives after that is none. A master that has lost
// its vote gets it again with the next renewal. Waiters ask again, by
// Config.Retry, in no order: there is no line that all masters agree on. Of two
// who try at once both may find a minority only: both get ErrHeld then.
//
// Its limits. Each master counts the lease on its own clock: one that jumps
// frees its vote early, and a second holder may find a majority. One that
// restarts without what it had granted does the same, unless it stays away for
// a lease. And no lock knows of a holder's pause between looking at its context
// and writing. What is written under it still needs a fencing token (see package fence).
type Client struct {
	*lease.Acquirer
	leases  *lease.Leases
	masters *masters
}

var _ lease.Locker = (*Client)(nil)

// New returns a Client over independent masters: an odd number of them,
// best three or five. Their clients should have ContextTimeoutEnabled, and
// DialerRetries of 1 lest one that is down use up the time of every attempt.
//
// Config.Timeout is 100 ms by default, at most a fifth of the lease, and
// Config.Retry is Backoff from 5 ms to 100 ms. It panics on a Config that
// Validate refuses, and without masters.
func New(masters []redis.UniversalClient, cfg lease.Config) *Client {
	if len(masters) == 0 {
		panic("redlock: no masters")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = min(cfg.WithDefaults().Lease/5, 100*time.Millisecond)
	}
	if cfg.Retry == nil {
		cfg.Retry = lease.Backoff(5*time.Millisecond, 100*time.Millisecond)
	}
	r := &Client{masters: newMasters(masters, cfg)}
	r.leases = lease.NewLeases(r.masters, cfg)
	r.Acquirer = lease.NewAcquirer(r.leases, func(c *lease.Call) (*lease.Lock, error) { return c.Poll(r.attempt) })
	return r
}

// Run is the Locker's. It returns when the last call to a master has ended.
func (r *Client) Run(ctx context.Context) error {
	defer func() { _ = r.masters.late.Wait(context.WithoutCancel(ctx)) }()
	return r.Acquirer.Run(ctx)
}

func (r *Client) attempt(c *lease.Call) (*lease.Lock, error) {
	ctx, key := c.Ctx, c.Key
	if err := onredis.CheckKey(key); err != nil {
		return nil, err
	}
	token, sent := onredis.NewToken(c.Lease), time.Now()
	err := r.masters.ask(ctx, func(ctx context.Context, s *onredis.Store) error {
		_, err := s.Ask(ctx, key, token, c.Lease)
		return err
	})
	if err == nil {
		var l *lease.Lock
		if l, err = c.Hold(token, sent); err == nil {
			return l, nil
		}
	}
	// Everywhere: a master whose answer was lost may have granted it.
	_, eraseErr := r.masters.erase(ctx, key, token)
	switch {
	case errors.Is(err, lease.ErrHeld) || errors.Is(err, lease.ErrStopped):
		return nil, err
	case ctx.Err() != nil:
		err = errors.Join(lease.Ended(ctx), err)
	}
	if errors.Is(eraseErr, lease.ErrUnknown) {
		err = fmt.Errorf("%w (and not taken back: %w)", err, eraseErr)
	}
	return nil, fmt.Errorf("%w: %w", lease.ErrUnknown, err)
}

// Remaining is the Locker's: how long a majority says that the lock is taken.
// It fails if a majority does not answer.
func (r *Client) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	answers := make([][]time.Duration, len(r.masters.all))
	errs := r.masters.askAll(func(i int, s *onredis.Store) (err error) { answers[i], err = s.Remaining(ctx, keys...); return err })
	if err := verdicts(errs, r.masters.quorum()); err != nil {
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
func (r *Client) taken(answers [][]time.Duration, key int) (longest time.Duration) {
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
		if votes >= r.masters.quorum() {
			longest = candidate[key]
		}
	}
	return longest
}
